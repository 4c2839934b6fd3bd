"""Attacks by signing in: with claims that anyone may write, of another provider, and by what is kept of a provider."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import SecretStr

from pipeline.devbroker.ports import free_ports
from tests.attack.attack import Attack
from tests.attack.stage import Program, Stage
from tests.support.gateways import NOBODY, client
from tests.support.oidc import CLIENT, SECRET, Provider, address, providing
from tests.support.topic_records import read_all
from tests.support.waiting import PATIENCE, until
from topics.catalog import FACTS, NOTICES
from turnmill.limits import TENANT_CHARACTERS

BOSS: Final = "boss@acme.example"
OPERATOR: Final = {"role": "operator", "tenant": "*"}
BY_ADDRESS: Final = ({**OPERATOR, "claim": "email", "value": BOSS},)
BY_GROUP: Final = ({**OPERATOR, "claim": "groups", "value": "operators"},)
BY_ORGANISATION: Final = ({"role": "editor", "claim": "groups", "value": "editors", "tenant_claim": "org"},)
LONGEST: Final = "a" * TENANT_CHARACTERS


def signing_in(providers: Sequence[Provider], rules: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Settings of a gateway whose people come from these providers."""
    (port,) = free_ports(1)
    known = [
        {"name": f"of-{number}", "issuer": one.url, "client_id": CLIENT, "client_secret": SECRET}
        for number, one in enumerate(providers)
    ]
    return {
        "gateway_port": port,
        "gateway_url": f"http://127.0.0.1:{port}",
        "gateway_oidc": SecretStr(json.dumps(known)),
        "gateway_oidc_roles": json.dumps(rules),
    }


@asynccontextmanager
async def doors(stage: Stage, provider: Provider, rules: Sequence[dict[str, Any]]) -> AsyncIterator[Program]:
    """-> a gateway where people sign in."""
    tokens = {"gateway_tokens": stage.settings.gateway_tokens}
    async with stage.beside("gateway", **signing_in([provider], rules), **tokens) as gateway:
        await gateway.url()
        yield gateway


@asynccontextmanager
async def browsing(url: str, provider: str = "") -> AsyncIterator[tuple[httpx.AsyncClient, httpx.Response]]:
    """-> somebody's browser, and what the gateway answers behind the sign-in."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=NOBODY) as browser:
        yield browser, await browser.get("/sign-in", params={"provider": provider}, follow_redirects=True)


async def unverified(stage: Stage) -> None:
    """Addresses that the provider has not verified: they give no role, and are nobody's name in the audit log."""
    async with providing() as provider, doors(stage, provider, BY_ADDRESS) as gateway:
        url = await gateway.url()
        for verified in (False, None, "false", "no", 0, [], {"true": True}):
            provider.claims = {"sub": "evil", "email": BOSS, "email_verified": verified, "name": BOSS}
            if verified is None:
                del provider.claims["email_verified"]
            async with browsing(url) as (browser, came):
                assert came.status_code == 403, f"email_verified {verified!r} gives a role"
                assert (await browser.get("/v1/threads")).status_code == 401
        async with client(url, stage.operator.headers["Authorization"].removeprefix("Bearer ")) as operator:

            async def noted() -> list[str]:
                answer = await operator.get("/v1/audit?what=sign-in&limit=500")
                return [entry["who"] for entry in answer.json()["records"]]

            assert BOSS not in await until(noted), "the audit log names somebody who did not sign in"
        provider.claims = {"sub": "boss", "email": BOSS, "email_verified": True}
        async with browsing(url) as (browser, _):
            assert (await browser.get("/v1/tokens")).status_code == 200, "who has the address can't sign in"


async def another_provider(stage: Stage) -> None:
    """Two providers, and a rule that does not say whose group it means: the second one's users have that group."""
    async with providing() as staff, providing() as guests:
        guests.claims = {**address("evil"), "groups": ["operators"]}
        changes = signing_in([staff, guests], BY_GROUP)
        status, said = await stage.command("doctor", **changes)
        assert (status != 0, "add `provider`" in said) == (True, True), f"doctor says that all is well: {said[-800:]}"
        async with stage.beside("gateway", **changes) as gateway:
            try:
                url = await gateway.url()
            except AssertionError:
                return  # it does not start
            async with browsing(url, "of-1") as (browser, _):
                assert (await browser.get("/v1/tokens")).status_code == 401, "a guest is an operator"


async def long_tenants(stage: Stage) -> None:
    """Tenants that are the same in what a shortened name has of them, by sign-in and by a JSON Web Token."""
    async with stage.another_token("longest", LONGEST) as token, providing() as provider:
        web = {"gateway_jwks_url": f"{provider.url}/jwks", "gateway_jwt_issuer": provider.url}
        web |= {"gateway_jwt_audience": CLIENT, "gateway_tokens": stage.settings.gateway_tokens}
        async with (
            stage.another_gateway(**signing_in([provider], BY_ORGANISATION), **web) as url,
            client(url, token) as victim,
        ):
            body = {"name": "theirs", "address": "#/threads", "shared": True}
            assert (await victim.post("/v1/views", json=body)).status_code == 201
            for tenant in (f"{LONGEST}-evil", LONGEST * 2):
                provider.claims = {**address("evil"), "groups": ["editors"], "org": tenant}
                async with browsing(url) as (browser, _):
                    assert "theirs" not in (await browser.get("/v1/views")).text, "two tenants are one"
                signed = provider.signed({"sub": "evil", "tenant": tenant, "scope": "read"})
                async with client(url, signed) as evil:
                    assert "theirs" not in (await evil.get("/v1/views")).text, "two tenants are one"
            async with client(url, provider.signed({"sub": "x", "tenant": LONGEST, "scope": "read"})) as own:
                assert "theirs" in (await own.get("/v1/views")).text


async def kept_identities(stage: Stage) -> None:
    """What a provider has signed of a person, as whoever may read topics, logs and answers finds it; and its end."""
    async with providing() as provider, doors(stage, provider, BY_GROUP) as gateway:
        url, given = await gateway.url(), []
        sign = provider.signed

        def kept(claims: dict[str, Any]) -> str:
            given.append(sign(claims))
            return given[-1]

        provider.signed = kept  # type: ignore[method-assign]  # nothing else tells what it has signed
        provider.claims = {**address("ann"), "groups": ["operators"]}
        async with browsing(url) as (browser, _):
            shown = [(await browser.get(path)).text for path in ("/v1/tokens", "/v1/session", "/v1/audit", "/metrics")]
            await stage.all_read()
            records: list[Any] = [*await read_all(stage.settings, FACTS), *await read_all(stage.settings, NOTICES)]
            written = b"".join([record.value or b"" for record in records]).decode()
            assert given[0] not in "".join([*shown, written, gateway.text(), stage.worker.text()])
            headers = {"Origin": url, "Sec-Fetch-Site": "same-origin", "X-Turnmill": "1"}
            assert (await browser.post("/sign-out", headers=headers)).status_code == 200

        said = await stage.speak()
        await stage.is_whole(said)
        assert (await stage.acme.delete(f"/v1/threads/{said.thread}")).status_code == 200  # it empties the store's log
        files = Path(stage.settings.store_url.removeprefix("sqlite:///")).parent.glob("threads.db*")
        found = [file.name for file in files if given[0].encode() in file.read_bytes()]
        assert not found, f"the token of who has signed out is in {found}"


ATTACKS: Final = (
    Attack("unverified addresses", "sign in with the boss's address, unverified", "be the boss", unverified),
    Attack("another provider", "groups of a second provider", "have the roles of the first one's", another_provider),
    Attack("long tenants", "tenants that differ behind 200 characters", "be one tenant", long_tenants),
    Attack(
        "kept identities",
        "ID tokens in topics, logs, answers, and in the store's files behind a sign-out and the next erasure",
        "be found",
        kept_identities,
    ),
)
