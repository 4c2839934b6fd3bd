"""JSON Web Tokens of a real issuer: a server with its keys."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa

from pipeline.gateway.access.json_web_tokens import Claims, JwtVerifier
from pipeline.gateway.problems import Problem
from tests.support.waiting import PATIENCE, until

ISSUER, AUDIENCE = "https://issuer.example.com", "turnmill"
KEY, ROLLED, FOREIGN = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(3))


@dataclass
class Issuer:
    """Serves `keys`; counts how often it is asked."""

    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=lambda: {"one": KEY})
    asked: int = 0
    broken: bool = False
    silent: asyncio.Event | None = None
    padding: int = 0
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if self.silent is not None:
            await self.silent.wait()
        if self.broken:
            return web.Response(status=500)
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        keys = [to_jwk(key.public_key(), as_dict=True) | {"kid": kid} for kid, key in self.keys.items()]
        answer = web.StreamResponse()
        await answer.prepare(request)
        for part in (b" " * self.padding, json.dumps({"keys": keys}).encode()):
            await answer.write(part)
        return answer


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    found = Issuer()
    app = web.Application()
    app.router.add_get("/jwks.json", found.answer)
    async with TestServer(app) as server:
        found.url = str(server.make_url("/jwks.json"))
        yield found


def verifier(issuer: Issuer, tenant_claim: str = "tenant") -> JwtVerifier:
    return JwtVerifier(issuer.url, ISSUER, AUDIENCE, tenant_claim, "scope")


def token(key: Any = KEY, kid: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
    said = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600, "sub": "u1", "tenant": "acme", "scope": "read"}
    said = {name: value for name, value in {**said, **claims}.items() if value is not None}
    return jwt.encode(said, key, algorithm, headers={"kid": kid} if kid else {})


async def refusal(of: JwtVerifier, text: str) -> str:
    with pytest.raises(Problem) as raised:
        await of.verify(text)
    return raised.value.kind


async def test_a_good_token_says_who_may_do_what(issuer: Issuer) -> None:
    mine = verifier(issuer)
    end = int(time.time()) + 600
    assert await mine.verify(token(scope="read turnmill:publish x", exp=end)) == Claims(
        "acme/u1", ("read", "publish", "x"), "acme", (ISSUER, "u1"), end * 1000
    )
    assert (await mine.verify(token(scope=["admin"], kid=None))).scopes == ("admin",)
    assert (await mine.verify(token(scope=None))).scopes == ()
    assert issuer.asked == 1, "keys are held"


@pytest.mark.parametrize(
    "bad",
    [
        lambda: token(exp=time.time() - 600),
        lambda: token(exp=None),
        lambda: token(nbf=time.time() + 600),
        lambda: token(iss="https://other"),
        lambda: token(aud="other"),
        lambda: token(aud=None),
        lambda: token(key=FOREIGN),
        lambda: token(kid="unknown"),
        lambda: token(key="", algorithm="none"),
        lambda: token(key="a shared secret that is long enough, so it is", algorithm="HS256"),
        lambda: token()[:-4],
        lambda: "a.b.c",
        lambda: "..",
    ],
)
async def test_any_other_token_is_refused(issuer: Issuer, bad: Any) -> None:
    assert await refusal(verifier(issuer), bad()) == "unauthorized"


@pytest.mark.parametrize("tenant", [None, "", 5, ["acme"]])
async def test_without_a_tenant_a_token_reaches_nothing(issuer: Issuer, tenant: Any) -> None:
    assert await refusal(verifier(issuer), token(tenant=tenant)) == "forbidden"
    assert (await verifier(issuer, "").verify(token(tenant=tenant))).tenant is None


async def test_keys_are_rolled_and_made_up_ones_do_not_flood_the_issuer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = verifier(issuer)
    await mine.verify(token())
    issuer.keys["two"] = ROLLED
    for n in range(20):
        assert await refusal(mine, token(key=FOREIGN, kid=f"made-up-{n}")) == "unauthorized"
    assert issuer.asked == 1
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.REQUEST_INTERVAL", 0.0)
    assert await mine.verify(token(key=ROLLED, kid="two"))
    assert issuer.asked == 2


async def test_an_issuer_that_is_away_is_no_fault_of_the_caller(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.broken = True
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.RETRY_INTERVAL", 3600.0)
    mine = verifier(issuer)
    for _ in range(5):
        assert await refusal(mine, token()) == "unavailable"
    assert issuer.asked == 1, "who is away is not asked by every caller"
    issuer.broken = False
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.RETRY_INTERVAL", 0.0)
    assert await mine.verify(token())
    issuer.broken = True
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.FRESH_SECONDS", 0.0)
    assert await mine.verify(token()), "known keys still hold"
    assert mine._asking is not None
    await mine._asking
    assert issuer.asked == 3
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.OUTAGE_SECONDS", 0.0)
    await mine._refresh()
    assert await refusal(mine, token()) == "unavailable", "an issuer that is away for a day may have revoked them"


async def test_no_redirect_is_followed_to_keys_that_come_from_elsewhere(issuer: Issuer) -> None:
    async def leads(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(issuer.url)

    app = web.Application()
    app.router.add_get("/jwks.json", leads)
    async with TestServer(app) as server:
        mine = JwtVerifier(str(server.make_url("/jwks.json")), ISSUER, AUDIENCE, "tenant", "scope")
        assert await refusal(mine, token()) == "unavailable"
    assert issuer.asked == 0


@pytest.mark.parametrize(("padding", "kind"), [(500_000, None), (2_000_000, "unavailable")])
async def test_keys_come_in_parts_and_are_bounded(issuer: Issuer, padding: int, kind: str | None) -> None:
    issuer.padding = padding
    mine = verifier(issuer)
    if kind is None:
        assert await mine.verify(token())
    else:
        assert await refusal(mine, token()) == kind


async def test_who_makes_up_key_ids_holds_nobody_up(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the review: while the issuer was asked for a made-up key, all logins waited, 5 s at most."""
    mine = verifier(issuer)
    await mine.verify(token())
    issuer.silent = asyncio.Event()
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.REQUEST_INTERVAL", 0.0)
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.REQUEST_TIMEOUT", 2 * PATIENCE)
    made_up = [asyncio.create_task(refusal(mine, token(key=FOREIGN, kid=f"made-up-{n}"))) for n in range(20)]

    async def asked() -> bool:
        return issuer.asked == 2

    await until(asked)
    async with asyncio.timeout(PATIENCE):
        assert await mine.verify(token())
    monkeypatch.setattr("pipeline.gateway.access.json_web_tokens.FRESH_SECONDS", 0.0)
    async with asyncio.timeout(PATIENCE):
        assert await mine.verify(token()), "a known key holds while the issuer is asked anew"
    issuer.silent.set()
    assert await asyncio.gather(*made_up) == ["unauthorized"] * 20
    assert issuer.asked == 2
