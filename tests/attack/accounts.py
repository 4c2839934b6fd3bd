"""Attacks on who did what: refusals in the audit log, tokens without an entry or a limit, and others' views by name."""

import asyncio
import os
import signal
from typing import Any, Final

import httpx

from tests.attack.attack import Attack
from tests.attack.commanding import AT_ONCE
from tests.attack.stage import Stage
from tests.support.gateways import client
from tests.support.waiting import until
from turnmill.limits import TOKENS, VIEWS

VIEW: Final = {"name": "x", "address": "#/threads"}
OVER: Final = 21  # more than there may be
KILLED: Final = 6  # gateways


def bearer(caller: httpx.AsyncClient) -> str:
    return caller.headers["Authorization"].removeprefix("Bearer ")


async def noted(stage: Stage, what: str, **fields: Any) -> None:
    """Wait for an entry with these fields."""

    async def there() -> bool:
        entries = (await stage.operator.get("/v1/audit", params={"what": what, "limit": 500})).json()["records"]
        return any(fields.items() <= entry.items() for entry in entries)

    await stage.within_progress(there, lambda: f"no entry {what} with {fields}")


async def at_the_proxy(stage: Stage) -> None:
    """Callers whom the proxy refuses: strangers, and those without the scope, at each form of its address."""
    body = {"name": "reads", "scopes": ["read"], "tenant": "evil"}
    reads = (await stage.operator.post("/v1/tokens", json=body)).json()["token"]
    more = {"gateway_proxy": "up=http://127.0.0.1:9", "gateway_tokens": stage.settings.gateway_tokens}
    async with stage.another_gateway(**more) as url, client(url) as http:
        for token, path in (("tm_nobody", "up/v1/chat/completions"), (reads, "up/v1/models"), (reads, "other/v1")):
            refused = await http.post(f"/proxy/{path}", json={}, headers={"Turnmill-Token": token})
            assert refused.status_code in (401, 403), refused.text
        refused = await http.post("/proxy/t/tm_someone/up/v1/chat/completions", json={})
        assert refused.status_code == 401, refused.text
        for who in ("", "reads"):
            await noted(stage, "refused", who=who, outcome="refused", subject="POST /proxy/{upstream}/{path:path}")


async def without_an_entry(stage: Stage) -> None:
    """The gateway is killed at the moment at which somebody has a token of it."""
    ids = []
    for number in range(KILLED):
        async with stage.beside("gateway", gateway_tokens=stage.settings.gateway_tokens) as gateway:
            async with client(await gateway.url(), bearer(stage.evil)) as evil:
                made = await evil.post("/v1/tokens", json={"name": f"quick-{number}", "scopes": ["read"]})
                os.kill(gateway.process.pid, signal.SIGKILL)
            assert made.status_code == 201, made.text
            ids.append(made.json()["id"])
    for made_id in ids:
        await noted(stage, "token.make", subject=made_id, outcome="done")
        await stage.evil.delete(f"/v1/tokens/{made_id}")


async def listed_as(stage: Stage, kind: str) -> list[dict[str, Any]]:
    """Return what the attacker has of a kind, without links: these have another limit, and other attacks leave some."""
    every = (await stage.evil.get(f"/v1/{kind}")).json()[kind]
    return [each for each in every if not each.get("thread")]


async def over_the_limit(stage: Stage) -> None:
    """More tokens and views than a tenant may have, at once and at two gateways; the other tenant's are not fewer."""
    async with (
        stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url,
        client(url, bearer(stage.evil)) as elsewhere,
    ):
        for kind, most, body in (("tokens", TOKENS, {"name": "t", "scopes": ["read"]}), ("views", VIEWS, VIEW)):
            before = len(await listed_as(stage, kind))
            slots = asyncio.Semaphore(AT_ONCE)

            async def make(number: int, kind: str = kind, body: Any = body, slots: Any = slots) -> int:
                async with slots:
                    return (await (stage.evil, elsewhere)[number % 2].post(f"/v1/{kind}", json=body)).status_code

            statuses = await asyncio.gather(*map(make, range(most - before + OVER)))
            listed = await listed_as(stage, kind)
            assert (len(listed), {*statuses}) == (most, {201, 409}), f"{len(listed)} {kind} of {most}"
            for caller, status in ((stage.acme, 201), (stage.evil, 409)):
                assert (await caller.post(f"/v1/{kind}", json=body)).status_code == status, f"{kind} of {caller}"
            for one in listed:
                await stage.evil.delete(f"/v1/{kind}/{one['id']}")


async def equal_names(stage: Stage) -> None:
    """A token with the name of another one of the tenant, and a person's name."""
    said = await stage.speak()
    await stage.is_whole(said)
    body = {"name": "twin", "scopes": ["feedback", "read"]}
    tokens = [(await stage.acme.post("/v1/tokens", json=body)).json()["token"] for _ in range(2)]
    async with client(stage.url, tokens[0]) as first, client(stage.url, tokens[1]) as second:
        view = (await first.post("/v1/views", json={"name": "private", "address": "#/threads?x=secret"})).json()
        path = f"/v1/threads/{said.thread}/feedback"
        assert (await first.post(path, json={"id": "f", "name": "n", "value": 1})).status_code < 300

        async def given() -> bool:
            return '"f"' in (await second.get(f"/v1/threads/{said.thread}?feedback=true")).text

        await until(given)
        assert "secret" not in (await second.get("/v1/views")).text, "a private view is shown to another one"
        assert (await second.delete(f"/v1/views/{view['id']}")).status_code == 404
        again = await second.post(path, json={"id": "f", "name": "n", "value": 0})
        assert again.status_code == 403, "feedback of another one is changed"


ATTACKS: Final = (
    Attack("refused at the proxy", "call the proxy without a right to", "leave no entry", at_the_proxy),
    Attack(
        "killed behind a token", "kill the gateway behind the answer", "have a token without an entry", without_an_entry
    ),
    Attack(
        "over the limit",
        f"{OVER} tokens and views more than a tenant may have, at once, at two gateways",
        "have them, or keep another tenant from its own",
        over_the_limit,
    ),
    Attack(
        "equal names",
        "tokens of the same name",
        "see or change each other's views and feedback",
        equal_names,
        short=True,
    ),
)
