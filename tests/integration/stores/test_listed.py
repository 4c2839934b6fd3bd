"""`turnmill budgets`, `alerts`, `webhooks`, `feedback`: from the store, and from the gateway at the address."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from pipeline.__main__ import cli
from pipeline.policies.alerts import parse
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.alerts import look
from tests.support.gateways import running
from turnmill.identity import thread_uuid
from turnmill.publish.feedback import made

ALERTS = '[{"name": "costs", "figure": "cost_usd", "above": 0, "within": "1h", "by": "agent"}]'
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
BUDGETS = '[{"name": "ours", "tokens": 10, "per": "day"}, {"name": "late", "agent": "b", "usd": 1, "per": "hour"}]'
WEBHOOKS = json.dumps([{"name": "ops", "url": "https://ops.example/turns", "secret": SECRET, "tenant": "acme"}])


@pytest.fixture
def turnmill(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with the store of the test, where no gateway is."""
    settings = {"STORE": store_url, "BUDGETS": BUDGETS, "ALERTS": ALERTS, "WEBHOOKS": WEBHOOKS, "GATEWAY_PORT": "9"}
    for name, value in settings.items():
        monkeypatch.setenv(f"TURNMILL_{name}", value)

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, args, standalone_mode=False, catch_exceptions=False)

    return run


def given(thread: str, **fields: Any) -> ReceivedFeedback:
    return ReceivedFeedback(made(thread, None, {"name": "helpful", "value": True, **fields}), 1, 1)


@pytest.mark.usefixtures("store")
def test_without_a_gateway_settings_and_store_say_it(turnmill: Any) -> None:
    said = turnmill("budgets").stdout
    assert "ours" in said
    assert [line.split()[:5] for line in said.splitlines()[1:]] == [
        ["ours", "0.0", "10.0", "tokens", "0.0"],
        ["late", "b", "0.0", "1.0", "usd"],
    ]
    [hook] = json.loads(turnmill("webhooks", "--json").stdout)["webhooks"]
    assert (hook["id"], hook["url"], hook["tenant"], hook["waiting"]) == (
        "setting:ops",
        "https://ops.example/turns",
        "acme",
        0,
    )
    assert SECRET not in turnmill("webhooks").stdout
    assert "no feedback is stored" in turnmill("feedback").stdout


async def test_an_alert_that_is_on(store: ThreadStore, record: Any, turnmill: Any) -> None:
    await write_turns(store, [record("chat", "r1", agent_id="weather")])
    await look(store, parse(ALERTS), 1_768_903_260_000)  # about when the record is of
    [costs] = json.loads((await asyncio.to_thread(turnmill, "alerts", "--json")).stdout)["alerts"]
    assert [on["of"] for on in costs["on"]] == [{"agent": "weather"}]
    assert '{"of":{"agent":"weather"}' in (await asyncio.to_thread(turnmill, "alerts")).stdout


async def test_feedback_of_a_thread_and_of_all(store: ThreadStore, record: Any, turnmill: Any) -> None:
    await write_turns(store, [record("chat", "r1", text="Sunny.")])
    await add_feedback(store, [given("chat", by="ann", comment="yes"), given("late", name="tone", value=2)])
    every = json.loads((await asyncio.to_thread(turnmill, "feedback", "--json")).stdout)["feedback"]
    assert {record["name"] for record in every} == {"helpful", "tone"}
    only = json.loads((await asyncio.to_thread(turnmill, "feedback", "--name", "tone", "--json")).stdout)["feedback"]
    assert [(record["thread_id"], record["value"]) for record in only] == [(thread_uuid("late")[0], 2)]
    assert "ann" in (await asyncio.to_thread(turnmill, "feedback", "chat")).stdout


async def test_a_gateway_at_the_address_is_asked_and_named(
    tmp_path: Path, turnmill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "theirs"
    theirs = BUDGETS.replace("ours", "theirs")
    settings = Settings(home=home, gateway_port=0, budgets=theirs, webhooks=SecretStr(WEBHOOKS))
    async with running(settings) as gateway:
        monkeypatch.setenv("TURNMILL_GATEWAY_PORT", gateway.url.rpartition(":")[2])
        done = await asyncio.to_thread(turnmill, "budgets")
        assert "theirs" in done.stdout
        assert f"in {gateway.url}" in done.stderr
        hooks = json.loads((await asyncio.to_thread(turnmill, "webhooks", "--json")).stdout)["webhooks"]
        assert [hook["id"] for hook in hooks] == ["setting:ops"]
        monkeypatch.delenv("TURNMILL_STORE")
        monkeypatch.chdir(tmp_path)
        done = await asyncio.to_thread(turnmill, "threads", "list")
        assert f"in sqlite:///{home / 'threads.db'}" in done.stderr
