"""Alerts over HTTP: a tenant sees those that are limited to it, and its own part of those by tenant."""

import json
from pathlib import Path

from pydantic import SecretStr

from pipeline.policies.alerts import parse
from pipeline.settings import Settings
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.alerts import look
from tests.support.gateways import Tokens, client, running
from tests.support.turn_records import make_record

NOW = 1_768_903_260_000  # about when the records are of
EACH = {"figure": "cost_usd", "above": 0, "within": "1h"}
ALERTS = json.dumps(
    [
        {"name": "each", "by": "tenant", **EACH},
        {"name": "globex", "tenant": "globex", **EACH},
        {"name": "every", "figure": "feedback", "feedback": "helpful", "below": 0.5, "within": "7d"},
    ]
)


async def test_each_tenant_its_own(tmp_path: Path) -> None:
    tokens = Tokens()
    settings = Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(tokens.setting), alerts=ALERTS)
    async with running(settings) as gateway:
        store = await gateway.app.state.gateway.store()
        await write_turns(store, [make_record("chat", "r", tenant=tenant) for tenant in ("acme", "globex")])
        await look(store, parse(ALERTS), NOW)

        async def listed(token: str | None, status: int = 200, **query: str) -> dict[str, list[str]]:
            async with client(gateway.url, token) as http:
                answer = await http.get("/v1/alerts", params=query)
                assert answer.status_code == status
                shown = answer.json().get("alerts", [])
                return {alert["name"]: [on["of"]["tenant"] for on in alert["on"]] for alert in shown}

        whole = {"each": ["acme", "globex"], "globex": ["globex"], "every": []}
        assert await listed(tokens.operator) == whole
        assert await listed(tokens.operator, tenant="acme") == {"each": ["acme"]}
        assert await listed(tokens.acme) == {"each": ["acme"]}
        assert await listed(tokens.globex) == {"each": ["globex"], "globex": ["globex"]}
        assert await listed(tokens.acme, 403, tenant="globex") == {}
        assert await listed(tokens.sender, 403) == {}
        async with client(gateway.url, tokens.operator) as http:
            every = (await http.get("/v1/alerts")).json()["alerts"][2]
            assert every == {
                "name": "every",
                "figure": "feedback",
                "feedback": "helpful",
                "above": None,
                "below": 0.5,
                "within_ms": 7 * 86_400_000,
                "by": None,
                "of": {},
                "on": [],
            }
