"""People sign in: what a provider says, what a rule gives, what a browser is let do, and how a session ends."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import event, update

from pipeline.devbroker.ports import free_ports
from pipeline.gateway.access import json_web_tokens
from pipeline.gateway.access.principal import SCOPES
from pipeline.policies.sign_in import SCOPES as OF_ROLE
from pipeline.settings import Settings
from pipeline.stores.accounts.tokens import Token, all_tokens
from pipeline.stores.database.schema import tokens
from pipeline.stores.database.store import ThreadStore
from tests.support.endpoints import let_in, operations
from tests.support.gateways import NOBODY, Running, Tokens, client, running
from tests.support.oidc import CLIENT, SECRET, Provider, address, providing
from tests.support.waiting import PATIENCE, until
from turnmill.errors import CallerError

RULES = [
    {"role": "operator", "claim": "groups", "value": "operators", "tenant": "*"},
    {"role": "editor", "claim": "groups", "value": "editors", "tenant_claim": "org"},
    {"role": "viewer", "claim": "groups", "value": "readers", "tenant": "acme"},
]
LOGOUT = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
OURS = {"X-Turnmill": "1"}


class Browser(httpx.AsyncClient):
    """Keeps cookies, and follows redirects where it is told to."""

    async def sign_in(self, **query: str) -> httpx.Response:
        return await self.get("/sign-in", params=query, follow_redirects=True)

    async def own(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Origin": str(self.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin", **OURS}
        return await self.request(method, path, headers=headers, **more)


def browser(url: str) -> Browser:
    return Browser(base_url=url, timeout=PATIENCE, trust_env=False, verify=NOBODY)


def settings_of(tmp_path: Path, provider: Provider, **more: Any) -> Settings:
    (port,) = free_ports(1)
    return Settings(
        home=tmp_path,
        gateway_port=port,
        gateway_url=f"http://127.0.0.1:{port}",
        gateway_oidc=SecretStr(provider.url),
        gateway_oidc_client_id=CLIENT,
        gateway_oidc_client_secret=SecretStr(SECRET),
        gateway_oidc_roles=json.dumps(RULES),
        gateway_oidc_contact="ops@acme.example",
        **more,
    )


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with providing() as one:
        yield one


@pytest.fixture
async def gateway(tmp_path: Path, provider: Provider) -> AsyncIterator[Running]:
    async with running(settings_of(tmp_path, provider)) as one:
        yield one


@asynccontextmanager
async def signed_in(gateway: Running, provider: Provider, group: str, **claims: str) -> AsyncIterator[Browser]:
    provider.claims = {**address(group), "groups": [group], **claims}
    async with browser(gateway.url) as one:
        await one.get("/sign-in", follow_redirects=True)
        assert one.cookies.get("turnmill")
        yield one


async def status(one: httpx.AsyncClient, path: str = "/v1/threads") -> int:
    return (await one.get(path)).status_code


async def is_out(one: httpx.AsyncClient) -> bool:
    return await status(one) == 401


async def test_who_signs_in_gets_a_role(gateway: Running, provider: Provider) -> None:
    async with browser(gateway.url) as one:
        refused = await one.get("/v1/threads")
        assert refused.status_code == 401
        assert refused.json()["sign_in"] == {"provider": "your organisation"}
        came = await one.sign_in(to="#/threads?sort=tokens")
        assert str(came.url) == f"{gateway.url}/#/threads?sort=tokens"
        [cookie] = [c for c in one.cookies.jar if c.name == "turnmill"]
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "lax"
        assert [c.name for c in one.cookies.jar] == ["turnmill", "turnmill-signed-in"], "nothing of signing in is left"
        assert await status(one) == 200
        expected = {"name": "ann@acme.example", "role": "viewer", "scopes": ["read"], "tenant": "acme"}
        assert (await one.get("/v1/session")).json() == expected
        assert await status(one, "/v1/tokens") == 403
        assert (await one.get("/v1/threads", params={"tenant": "globex"})).status_code == 403


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"groups": ["operators", "readers"]}, ("operator", None)),
        ({"groups": ["editors"], "org": "globex"}, ("editor", "globex")),
        ({"groups": ["editors"], "org": "*"}, None),  # a claim never means all tenants
        ({"groups": ["editors"]}, None),
        ({"groups": "readers"}, ("viewer", "acme")),
        ({"groups": []}, None),
        ({}, None),
    ],
)
async def test_rules(
    gateway: Running, provider: Provider, claims: dict[str, Any], expected: tuple[str, str | None] | None
) -> None:
    provider.claims, provider.more = {"sub": "ann"}, claims  # from the userinfo endpoint alone
    async with browser(gateway.url) as one:
        came = await one.sign_in()
        if expected is None:
            assert came.status_code == 403
            assert "Ask ops@acme.example" in came.text
            assert not one.cookies
            assert await is_out(one)
        else:
            found = (await one.get("/v1/session")).json()
            assert (found["role"], found["tenant"]) == expected
            assert set(found["scopes"]) == set(OF_ROLE[found["role"]]) <= set(SCOPES)


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "#x"]
)
async def test_it_leads_to_our_own_page_alone(gateway: Running, to: str) -> None:
    async with browser(gateway.url) as one:
        assert str((await one.sign_in(to=to)).url) == f"{gateway.url}/"


async def callback(one: Browser, provider: Provider) -> str:
    """Sign in up to the address to which the provider sends the browser back."""
    begun = await one.get("/sign-in")
    async with httpx.AsyncClient(verify=NOBODY, trust_env=False) as other:
        return (await other.get(begun.headers["Location"])).headers["Location"]


async def test_a_code_a_state_and_a_browser_belong_together(gateway: Running, provider: Provider) -> None:
    async with browser(gateway.url) as victim, browser(gateway.url) as thief:
        address = await callback(victim, provider)
        assert (await thief.get(address)).status_code == 400, "a browser that has not begun it"
        wrong = httpx.URL(address).copy_set_param("state", "x" * 30)
        assert (await victim.get(wrong)).status_code == 400
        other = parse_qs(urlsplit(await callback(thief, provider)).query)["code"][0]
        mixed = httpx.URL(address).copy_set_param("code", other)
        kept = dict(victim.cookies)
        assert (await victim.get(mixed)).status_code == 400, "another one's code: the proof of PKCE is missing"
        address = await callback(victim, provider)
        kept = dict(victim.cookies)
        assert (await victim.get(address)).status_code == 303
        assert (await victim.get(address)).status_code == 400, "once"
        async with httpx.AsyncClient(base_url=gateway.url, cookies=kept, verify=NOBODY, trust_env=False) as replay:
            assert (await replay.get(address)).status_code == 400, "the provider takes a code once, too"


async def test_a_provider_that_is_away_is_told(tmp_path: Path, provider: Provider) -> None:
    away = SecretStr(f"http://127.0.0.1:{free_ports(1)[0]}")
    settings = settings_of(tmp_path, provider).model_copy(update={"gateway_oidc": away})
    async with running(settings) as gateway, browser(gateway.url) as one:
        answer = await one.get("/sign-in")
    assert (answer.status_code, "does not answer" in answer.text) == (400, True)


async def test_another_gateway_knows_it_at_once(gateway: Running, provider: Provider) -> None:
    elsewhere = gateway.settings.model_copy(update={"gateway_port": 0})
    async with running(elsewhere) as second, browser(second.url) as two:
        two.cookies.set("turnmill", "tm_nobody")
        assert await status(two) == 401
        async with signed_in(gateway, provider, "readers") as one:
            assert await status(one) == 200
            two.cookies.clear()
            two.cookies.set("turnmill", one.cookies["turnmill"])
            assert await status(two) == 200


async def test_tabs_do_not_disturb_each_other(gateway: Running, provider: Provider) -> None:
    async with browser(gateway.url) as one:
        first, second = await callback(one, provider), await callback(one, provider)
        assert (await one.get(first)).status_code == 303
        secret = one.cookies["turnmill"]
        assert (await one.get(second)).status_code == 303
        assert one.cookies["turnmill"] != secret, "it is another session"
        assert await status(one) == 200
        async with httpx.AsyncClient(
            base_url=gateway.url, cookies={"turnmill": secret}, verify=NOBODY, trust_env=False
        ) as old:
            await until(lambda: is_out(old))
        for _ in range(10):  # that are begun, and never ended
            await callback(one, provider)
        assert len(one.cookies) <= 7


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"aud": "another client"},
        {"nonce": "of another sign-in"},
        {"exp": 1},
        {"iat": 4102444800},  # in 2100
    ],
    ids=str,
)
async def test_an_id_token_that_is_not_for_this(gateway: Running, provider: Provider, wrong: dict[str, Any]) -> None:
    provider.wrong = wrong
    async with browser(gateway.url) as one:
        assert (await one.sign_in()).status_code == 400
        assert not one.cookies


async def test_clocks_may_differ_a_little(gateway: Running, provider: Provider) -> None:
    now = int(time.time())
    provider.wrong = {"iat": now + 15, "exp": now - 15}
    async with browser(gateway.url) as one:
        assert (await one.sign_in()).status_code == 200
        assert await status(one) == 200


async def test_keys_rotate(gateway: Running, provider: Provider) -> None:
    async with signed_in(gateway, provider, "readers") as one:
        provider.rotate()
        assert await status(one) == 200, "who is signed in stays so"
        async with signed_in(gateway, provider, "operators") as other:
            assert await status(other, "/v1/tokens") == 200
        assert provider.fetched == 2


async def test_signing_out_ends_it_everywhere(gateway: Running, provider: Provider) -> None:
    other_port = gateway.settings.model_copy(update={"gateway_port": 0})
    async with (
        running(other_port) as second,
        signed_in(gateway, provider, "readers") as one,
        browser(second.url) as two,
    ):
        two.cookies.set("turnmill", one.cookies["turnmill"])  # stolen
        assert await status(two) == 200
        assert (await one.post("/sign-out")).status_code == 403, "a form of another site could do that"
        assert await status(one) == 200
        to = (await one.own("POST", "/sign-out")).json()["to"]
        asked = parse_qs(urlsplit(to).query)
        assert to.startswith(f"{provider.url}/end?")
        assert asked["post_logout_redirect_uri"] == [f"{gateway.url}/"]
        assert asked["id_token_hint"]
        assert not one.cookies
        await until(lambda: is_out(two))


@pytest.mark.parametrize("meant", [{"sub": "readers"}, {"sid": "s-1"}], ids=str)
async def test_the_provider_ends_it(
    gateway: Running, provider: Provider, meant: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_web_tokens, "REQUEST_INTERVAL", 0.0)
    async with signed_in(gateway, provider, "readers") as one, browser(gateway.url) as program:
        bad = [
            "",
            "no token",
            provider.signed(meant),
            provider.signed({**meant, **LOGOUT, "nonce": "x"}),
            provider.signed({**meant, **LOGOUT, "aud": "another"}),
            provider.signed({**meant, **LOGOUT, "exp": 1}),
            provider.signed(LOGOUT),
        ]
        for token in bad:
            assert (await program.post("/sign-out/provider", data={"logout_token": token})).status_code == 400
        other = provider.signed({**dict.fromkeys(meant, "another"), **LOGOUT})
        assert (await program.post("/sign-out/provider", data={"logout_token": other})).status_code == 200
        assert await status(one) == 200
        provider.rotate()
        good = provider.signed({**meant, **LOGOUT})
        assert (await program.post("/sign-out/provider", data={"logout_token": good})).status_code == 200
        await until(lambda: is_out(one))
        assert (await program.post("/sign-out/another", data={"logout_token": good})).status_code == 404


async def aged(settings: Settings, **values: int) -> None:
    """Change the times of all sessions."""
    async with await ThreadStore.open(settings.store_url) as store, store.writing() as connection:
        await connection.execute(update(tokens).values(**values, changed_at=tokens.c.changed_at + 1))


async def test_it_ends_by_itself(gateway: Running, provider: Provider) -> None:
    now = int(time.time() * 1000)
    async with signed_in(gateway, provider, "readers") as one:
        await aged(gateway.settings, expires_at=now)
        await until(lambda: is_out(one))
    async with signed_in(gateway, provider, "readers") as one:
        async with await ThreadStore.open(gateway.settings.store_url) as store:
            assert len(await all_tokens(store)) == 1, "the one that has expired is gone"
        hour = 3_600_000
        await aged(gateway.settings, made_at=now - 3 * hour, used_at=now - hour + 60_000)
        assert await status(one) == 200

        async def idle() -> bool:
            # Again each time: the gateway notes a use behind its answer, perhaps only after this was written.
            await aged(gateway.settings, made_at=now - 3 * hour, used_at=now - hour - 1)
            return await is_out(one)

        assert await until(idle)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example", **OURS},
        {"Origin": "null", **OURS},
        OURS,
        {"Sec-Fetch-Site": "cross-site", **OURS},
    ],
    ids=str,
)
async def test_another_site_does_nothing(gateway: Running, provider: Provider, headers: dict[str, str]) -> None:
    async with signed_in(gateway, provider, "operators") as one:
        body = {"name": "x", "scopes": ["read"]}
        assert (await one.post("/v1/tokens", json=body, headers=headers)).status_code == 403
        assert (await one.own("POST", "/v1/tokens", json=body)).status_code == 201
        assert (await one.get("/v1/threads", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403


async def test_the_audit_log_has_who_came_and_went(gateway: Running, provider: Provider) -> None:
    async with signed_in(gateway, provider, "readers") as one:
        [session] = await sessions(gateway)
        await one.own("POST", "/sign-out")
    async with signed_in(gateway, provider, "operators") as ann:
        provider.claims = address("eve")
        async with browser(gateway.url) as eve:
            assert (await eve.sign_in()).status_code == 403
        provider.wrong = {"aud": "another client"}
        async with browser(gateway.url) as eve:
            assert (await eve.sign_in()).status_code == 400

        async def told() -> list[list[Any]]:
            records = (await ann.get("/v1/audit", params={"what": "sign-in"})).json()["records"]
            records += (await ann.get("/v1/audit", params={"what": "sign-out"})).json()["records"]
            return [[row[name] for name in ("who", "action", "tenant", "outcome", "address")] for row in records]

        async def all_there() -> bool:
            return len(await told()) == 5

        await until(all_there)
        assert await told() == [
            ["", "sign-in", None, "refused", "127.0.0.1"],
            ["eve@acme.example", "sign-in", None, "refused", "127.0.0.1"],
            ["operators@acme.example", "sign-in", None, "done", "127.0.0.1"],
            ["readers@acme.example", "sign-in", "acme", "done", "127.0.0.1"],
            ["readers@acme.example", "sign-out", "acme", "done", "127.0.0.1"],
        ]
        out = (await ann.get("/v1/audit", params={"what": "sign-out"})).json()["records"]
        assert [row["token"] for row in out] == [session.id]


async def sessions(gateway: Running) -> list[Token]:
    async with await ThreadStore.open(gateway.settings.store_url) as store:
        return await all_tokens(store)


async def test_a_session_is_no_token_and_a_token_no_session(gateway: Running, provider: Provider) -> None:
    async with signed_in(gateway, provider, "operators") as one:
        made = (await one.own("POST", "/v1/tokens", json={"name": "ci", "scopes": ["read"]})).json()
        assert made["expires_at"] is None, "it outlasts the session of its maker"
        [session] = [row for row in (await one.get("/v1/tokens")).json()["tokens"] if row["role"]]
        assert (session["role"], session["name"]) == ("operator", "operators@acme.example")
        assert (await one.own("POST", f"/v1/tokens/{session['id']}/rotate")).status_code == 404
        async with browser(gateway.url) as other:
            swapped = {"Authorization": f"Bearer {one.cookies['turnmill']}"}
            assert (await other.get("/v1/threads", headers=swapped)).status_code == 401
            other.cookies.set("turnmill", made["token"])
            assert await is_out(other)
        assert (await one.own("DELETE", f"/v1/tokens/{session['id']}")).status_code == 204
        await until(lambda: is_out(one))


async def test_each_endpoint_asks_who_it_is(gateway: Running, provider: Provider) -> None:
    """From the OpenAPI document: with no session, from another site, with a lesser role, for another tenant."""
    every = list(operations(gateway.app.openapi()))
    async with signed_in(gateway, provider, "readers") as viewer, browser(gateway.url) as nobody:
        assert [wrong for one in every for wrong in await let_in(one, nobody, viewer, gateway.url)] == []
    assert len(every) > 20


async def test_each_provider_has_rules_of_its_own(tmp_path: Path, provider: Provider) -> None:
    async with providing() as other:
        known = [
            {"name": name, "issuer": one.url, "client_id": CLIENT, "client_secret": SECRET, "title": title}
            for name, one, title in (("staff", provider, "Staff"), ("guests", other, "Guests"))
        ]
        rules = [
            {"role": "operator", "claim": "groups", "value": "operators", "tenant": "*", "provider": "staff"},
            {"role": "viewer", "claim": "groups", "value": "operators", "tenant": "acme", "provider": "guests"},
        ]
        for one in (provider, other):
            one.claims = {**address("ann"), "groups": ["operators"]}
        settings = settings_of(tmp_path, provider).model_copy(
            update={
                "gateway_oidc": SecretStr(json.dumps(known)),
                "gateway_oidc_client_id": None,
                "gateway_oidc_client_secret": None,
                "gateway_oidc_roles": json.dumps(rules),
            }
        )
        async with running(settings) as gateway:
            for name, role in (("staff", "operator"), ("guests", "viewer")):
                async with browser(gateway.url) as mine:
                    refused = await mine.get("/v1/threads")
                    assert refused.json()["sign_in"] == {"staff": "Staff", "guests": "Guests"}
                    await mine.sign_in(provider=name)
                    assert (await mine.get("/v1/session")).json()["role"] == role
            async with browser(gateway.url) as mixed:  # what one provider answers is nothing to the other
                begun = await mixed.get("/sign-in", params={"provider": "guests"})
                answer = await mixed.get(begun.headers["location"])
                came = await mixed.get(answer.headers["location"].replace("/sign-in/guests/", "/sign-in/staff/"))
                assert came.status_code == 400
                assert await status(mixed) == 401


async def test_an_address_that_nobody_verified_is_nobodys(tmp_path: Path, provider: Provider) -> None:
    rules = [{"role": "operator", "claim": "email", "value": "ann@acme.example", "tenant": "*"}]
    settings = settings_of(tmp_path, provider).model_copy(update={"gateway_oidc_roles": json.dumps(rules)})
    async with running(settings) as gateway:
        for verified, answer in ((False, 403), (None, 403), (True, 200)):
            provider.claims = {**address("ann"), "email_verified": verified, "sub": "u-7"}
            async with browser(gateway.url) as one:
                came = await one.sign_in()
                assert came.status_code == answer, verified
                assert ("You are ann@acme.example (u-7)" in came.text) == (answer == 403)


async def test_a_rule_that_two_providers_could_satisfy_is_refused(tmp_path: Path, provider: Provider) -> None:
    known = [
        {"name": name, "issuer": provider.url, "client_id": CLIENT, "client_secret": SECRET} for name in ("a", "b")
    ]
    settings = settings_of(tmp_path, provider).model_copy(update={"gateway_oidc": SecretStr(json.dumps(known))})
    with pytest.raises(CallerError, match="add `provider`, one of a, b"):
        async with running(settings):
            pass


async def test_who_has_none_of_it_asks_the_store_nothing_more(gateway_settings: Settings, tokens: Tokens) -> None:
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        sent.append(sql)

    async def asked(settings: Settings, token: str | None) -> list[str]:
        async with running(settings) as gateway, client(gateway.url, token) as http:
            assert (await http.get("/v1/threads")).status_code == 200  # the first one opens the store
            engine = (await gateway.app.state.gateway.store())._engine.sync_engine
            event.listen(engine, "before_cursor_execute", note)
            sent.clear()
            for _ in range(3):
                assert (await http.get("/v1/threads")).status_code == 200
            event.remove(engine, "before_cursor_execute", note)
            return list(sent)

    def alone(settings: Settings) -> Settings:
        return settings.model_copy(update={"audit_retention": 0.0, "control": False, "feedback": False})

    guarded = gateway_settings.model_copy(update={"gateway_tokens": SecretStr(tokens.setting)})
    least = await asked(alone(gateway_settings), None)
    assert [sql for sql in least if "FROM threads" in sql]
    assert await asked(gateway_settings, None) == least
    assert await asked(guarded, tokens.operator) == least


def test_who_has_none_of_it_loads_nothing_of_it() -> None:
    program = (
        "import sys; from pipeline.gateway.serving.app import create_app; from pipeline.settings import Settings; "
        "create_app(Settings()); "
        "assert not {'authlib', 'joserfc', 'pipeline.gateway.access.sign_in'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
