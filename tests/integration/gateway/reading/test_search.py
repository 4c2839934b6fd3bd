"""Searches over HTTP and by command: parameters, pages, and what is refused."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.cli.stored import selection
from pipeline.cli.stored import store as store_command
from pipeline.cli.stored import threads as command
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.gateways import Running, client
from tests.support.turn_records import make_record
from turnmill.identity import thread_uuid


@pytest.fixture
async def said(gateway_settings: Settings) -> None:
    """Turns of some threads."""
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        records: list[Any] = [
            make_record(run=f"r{n}", seconds=n, text=f"hello <i>{n}</i>", role="user" if n % 2 else "agent")
            for n in range(5)
        ]
        await write_turns(store, records)


async def test_hits_and_pages(gateway: Running, said: None) -> None:
    async with client(gateway.url) as http:
        answer = await http.get("/v1/search", params={"q": "hello", "limit": 2})
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "private, no-cache")
        assert list(answer.json()) == ["results", "next"]
        first = answer.json()["results"][0]
        assert list(first) == ["thread_id", "turn_id", "role", "at", "snippet", "score", "agent", "title", "tenant"]
        assert first["thread_id"] == thread_uuid("chat")[0]
        assert (first["agent"], first["title"], first["tenant"]) == ("A1", "hello <i>1</i>", None)
        assert first["snippet"] == "<mark>hello</mark> &lt;i&gt;4&lt;/i&gt;"
        ats = [hit["at"] for hit in answer.json()["results"]]
        while answer.json()["next"]:
            query = {"q": "hello", "limit": 2, "cursor": answer.json()["next"]}
            answer = await http.get("/v1/search", params=query)
            ats += [hit["at"] for hit in answer.json()["results"]]
        assert len(set(ats)) == len(ats) == 5
        for more, count in (
            ({"role": "user"}, 2),
            ({"agent": "a1"}, 5),
            ({"agent": "nobody"}, 0),
            ({"since": "2026-01-20T10:00:02Z"}, 3),
            ({"until": "2026-01-20T10:00:02Z", "since": str(min(ats))}, 2),
            ({"in": ["thinking", "results"]}, 0),
            ({"tenant": "nobody"}, 0),
        ):
            found = await http.get("/v1/search", params={"q": "hello", **more})
            assert len(found.json()["results"]) == count, more


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 422),
        ({"q": ""}, 422),
        ({"q": "x" * 501}, 422),
        ({"q": "x", "role": "system"}, 422),
        ({"q": "x", "in": "everything"}, 422),
        ({"q": "x", "limit": 101}, 422),
        ({"q": "x", "since": "yesterday"}, 422),
        ({"q": "-x"}, 400),
        ({"q": "…"}, 400),
        ({"q": "x", "cursor": "nonsense"}, 400),
        ({"q": "' OR 1=1; DROP TABLE said; --"}, 200),
        ({"q": 'said_words:x AND NEAR("a" "b") ^c {d}'}, 200),
        ({"q": "\0x"}, 200),
    ],
)
async def test_what_cannot_be_understood_is_refused(
    gateway: Running, said: None, query: dict[str, str], status: int
) -> None:
    async with client(gateway.url) as http:
        answer = await http.get("/v1/search", params=query)
        assert answer.status_code == status, answer.text
        assert (await http.get("/v1/search", params={"q": "hello"})).json()["results"]


def test_the_command(gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch, said: None) -> None:
    off = gateway_settings.model_copy(update={"search": "off"})
    for module in (command, selection):
        monkeypatch.setattr(module, "load_running", lambda: gateway_settings)
    monkeypatch.setattr(selection, "load", lambda: gateway_settings)
    monkeypatch.setattr(store_command, "load", lambda: off)

    def run(*words: str) -> str:
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        return result.output

    found = json.loads(run("search", "hello", "--role", "user", "--since", "2026-01-20", "--limit", "1", "--json"))
    assert [hit["role"] for hit in found["results"]] == ["user"]
    assert found["next"] is not None
    shown = run("search", "hello", "--cursor", found["next"], "--role", "user", "--limit", "1")
    assert "hello <i>1</i>" in shown
    assert thread_uuid("chat")[0] in shown
    assert "nothing of that was said" in run("search", "goodbye", "--in", "said")
    refused = CliRunner().invoke(cli, ["search", "hello", "--until", "tomorrow"])
    assert "is no time: 2026-01-20T16:59:02Z" in refused.output
    assert "deleted the words of 5 turns" in run("store", "index")
    assert "nothing of that was said" in run("search", "hello")
    monkeypatch.setattr(store_command, "load", lambda: gateway_settings)
    assert "indexed 5 turns" in run("store", "index")
    assert "hello" in run("search", "hello")
    monkeypatch.setattr(command, "load_running", lambda: off)
    assert "TURNMILL_SEARCH is off" in str(CliRunner().invoke(cli, ["search", "hello"]).exception)
