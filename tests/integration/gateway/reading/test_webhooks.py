"""Webhooks over HTTP: secrets are shown once, and a tenant sees and changes its own alone."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.gateway.reading import webhooks
from pipeline.settings import Settings
from tests.support.gateways import Tokens, client, running

URL = "https://crm.example.com/hook?key=hidden"


def settings_of(tmp_path: Path, tokens: Tokens, on: str | None = "[]") -> Settings:
    secret = SecretStr(on) if on is not None else None
    return Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(tokens.setting), webhooks=secret)


async def test_webhooks_of_two_tenants(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    async with running(settings_of(tmp_path, tokens)) as gateway, client(gateway.url, tokens.acme) as acme:
        made = await acme.post("/v1/webhooks", json={"url": URL, "events": ["turn.completed"]})
        assert made.status_code == 201
        first = made.json()
        secret = first.pop("secret")
        assert secret.startswith("whsec_")
        assert (first["tenant"], first["events"], first["waiting"]) == ("acme", ["turn.completed"], 0)
        path = f"/v1/webhooks/{first['id']}"
        assert (await acme.get("/v1/webhooks")).json() == {"webhooks": [first]}
        assert (await acme.get(path)).json() == first
        async with client(gateway.url, tokens.globex) as globex:
            assert (await globex.get("/v1/webhooks")).json() == {"webhooks": []}
            for method, where in (("GET", path), ("DELETE", path), ("POST", f"{path}/secret")):
                assert (await globex.request(method, where)).status_code == 404
            other = await globex.post("/v1/webhooks", json={"url": URL}, params={"tenant": "acme"})
            assert other.status_code == 403
        async with client(gateway.url, tokens.operator) as operator:
            everyones = (await operator.post("/v1/webhooks", json={"url": URL})).json()
            assert everyones["tenant"] is None
            assert len((await operator.get("/v1/webhooks")).json()["webhooks"]) == 2
        assert (await acme.get(f"/v1/webhooks/{everyones['id']}")).status_code == 404
        renewed = (await acme.post(f"{path}/secret")).json()["secret"]
        assert renewed not in (secret, "")
        assert (await acme.delete(path)).status_code == 204
        assert (await acme.delete(path)).status_code == 404
    assert not [one for one in (secret, renewed, everyones["secret"], "hidden") if one in caplog.text]


@pytest.mark.parametrize(
    "body", [{"url": "http:/x"}, {"url": "https://u:p@x/"}, {"url": URL, "events": ["turn.begun"]}, {}, {"url": 5}]
)
async def test_what_is_no_webhook(tmp_path: Path, body: dict[str, object]) -> None:
    tokens = Tokens()
    async with running(settings_of(tmp_path, tokens)) as gateway, client(gateway.url, tokens.acme) as acme:
        assert (await acme.post("/v1/webhooks", json=body)).status_code in (400, 422)


async def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens()
    monkeypatch.setattr(webhooks, "WEBHOOKS", 2)
    async with running(settings_of(tmp_path, tokens)) as gateway, client(gateway.url, tokens.acme) as acme:
        found = [(await acme.post("/v1/webhooks", json={"url": URL})).status_code for _ in range(3)]
        assert found == [201, 201, 409]
    async with running(settings_of(tmp_path, tokens, on=None)) as gateway, client(gateway.url, tokens.acme) as acme:
        assert (await acme.get("/v1/webhooks")).status_code == 409, "webhooks are off unless a setting turns them on"
