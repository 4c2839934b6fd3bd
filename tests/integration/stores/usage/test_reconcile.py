"""`turnmill usage reconcile` on a store with the same calls as a provider's export, with fewer, and with others."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipeline.__main__ import cli
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import sum_up
from tests.support.turn_records import make_record

MODEL = "claude-sonnet-4-20250514"
# As platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages documents it: a key each, by hours.
RESULT = {
    "uncached_input_tokens": 1_500,
    "cache_creation": {"ephemeral_1h_input_tokens": 1_000, "ephemeral_5m_input_tokens": 500},
    "cache_read_input_tokens": 200,
    "output_tokens": 500,
    "server_tool_use": {"web_search_requests": 1},
    "model": MODEL,
    "service_tier": "standard",
}


def bucket(hour: int, key: str) -> dict[str, Any]:
    return {"starting_at": f"2026-01-20T{hour}:00:00Z", "results": [{**RESULT, "api_key_id": key}]}


PAGES = "\n".join(
    json.dumps({"data": [one], "has_more": more, "next_page": "p" if more else None})
    for one, more in ((bucket(10, "apikey_1"), True), (bucket(11, "apikey_2"), False))
)


def response(chat: str, seconds: int, **more: Any) -> Any:
    made = make_record(chat, f"r{seconds}", seconds=seconds, model=more.pop("model", MODEL))
    made["turn"]["messages"][0] |= {
        "provider_name": "anthropic",
        "usage": {
            "input_tokens": 3_200,
            "cache_read_tokens": 200,
            "cache_write_tokens": 1_500,
            "cache_write_1h_tokens": 1_000,
            "output_tokens": 500,
            "web_searches": 1,
            **more,
        },
    }
    return made


@pytest.fixture
def store(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))
    return store_url


def stored(url: str, *records: Any, sums: bool = False) -> None:
    async def fill() -> None:
        async with await ThreadStore.open(url, migrate=True) as opened:
            await write_turns(opened, [*records])
            while sums and await sum_up(opened):
                pass

    asyncio.run(fill())


def reconciled(text: str, *more: str, provider: str = "anthropic") -> Result:
    given = ["usage", "reconcile", "--provider", provider, *more, "-"]
    return CliRunner().invoke(cli, given, input=text, standalone_mode=False)


def test_equal_and_then_a_call_more(store: str) -> None:
    stored(store, response("a", 60), response("b", 3_700))
    for _ in range(2):  # from rows, then from sums
        said = reconciled(PAGES)
        assert (said.exit_code, said.stdout) == (0, "anthropic, 2026-01-20 to 2026-01-20: 1 line equal, 0 not\n")
        stored(store, sums=True)
    stored(store, response("c", 120, web_searches=0), response("d", 130, model="claude-opus-4-1"))
    said = reconciled(PAGES, "--json")
    assert said.exit_code == 1
    document = json.loads(said.stdout)
    assert (document["from"], document["to"], document["equal"]) == ("2026-01-20", "2026-01-20", False)
    other, line = document["lines"]
    assert (other["model"], other["state"]) == ("claude-opus-4-1", "not at the provider")
    assert (line["model"], line["state"]) == (MODEL, "differs")
    assert line["counts"]["input_tokens"] == {"provider": 6_400, "store": 9_600, "differs": True}
    assert line["counts"]["web_searches"] == {"provider": 2, "store": 2, "differs": False}
    assert {key: counts["output_tokens"] for key, counts in line["keys"].items()} == {"apikey_1": 500, "apikey_2": 500}
    shown = reconciled(PAGES)
    assert shown.exit_code == 1
    assert "the provider counts none" in shown.stdout
    assert "of key apikey_1: input_tokens 3,200" in shown.stdout
    assert "web_searches" not in shown.stdout.partition("of key")[0].partition(MODEL)[2]


def test_another_name_in_the_store(store: str) -> None:
    made = [response("a", 60), response("b", 3_700)]
    for one in made:
        one["turn"]["messages"][0]["provider_name"] = "My-Gateway"
    stored(store, *made)
    said = reconciled(PAGES)
    assert said.exit_code == 1
    assert "responses of this model are stored as of provider My-Gateway: 2" in said.stdout
    assert reconciled(PAGES, "--stored-as", "my-gateway").exit_code == 0


def test_costs_of_a_day_without_models(store: str) -> None:
    stored(store, response("a", 60, cost=0.0123456789), response("b", 3_700, cost=0.5))
    cost = {"object": "organization.costs.result", "amount": {"value": 0.512345679, "currency": "usd"}}
    page = {"object": "page", "data": [{"object": "bucket", "start_time": 1_768_867_200, "results": [cost]}]}
    assert reconciled(json.dumps(page), "--stored-as", "anthropic", provider="openai").exit_code == 0
    cost["amount"] = {"value": 0.6, "currency": "usd"}
    said = reconciled(json.dumps(page), "--stored-as", "anthropic", provider="openai")
    assert said.exit_code == 1
    assert "all models" in said.stdout
    assert "-0.087654" in said.stdout


def test_files_that_cannot_be_read(store: str, tmp_path: Path) -> None:
    stored(store)
    for text, why in (
        (PAGES[:-1], "the JSON is cut off"),
        ('{"data": [], "has_more": false}', "there is no usage in it"),
        ('{"data": [{"starting_at": "0001-01-01", "results": []}]}', "it has no time in starting_at"),
    ):
        said = reconciled(text)
        assert getattr(said.exception, "exit_code", None) == 2
        assert why in str(said.exception)
        assert "expected: pages of /v1/organizations/usage_report/messages" in str(said.exception)
    binary = tmp_path / "binary"
    binary.write_bytes(b"{\xff\xfe\x00")
    said = CliRunner().invoke(cli, ["usage", "reconcile", "--provider", "openai", str(binary)], standalone_mode=False)
    assert getattr(said.exception, "exit_code", None) == 2
