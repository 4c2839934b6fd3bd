"""What a team asks of a fleet of 200 agents, 50 users and 10 projects, each by a request or a command."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.turn_records import make_record

AGENTS, USERS, PROJECTS, RUNS = 200, 50, 10, 400


def run_of(n: int) -> Any:
    """The n-th run: another tool fails in some, and the second of two versions of the prompt costs more tokens."""
    made = make_record(f"chat{n}", f"r{n}", seconds=n * 20, tokens=100 + 50 * (n % 2), agent_id=f"agent{n % AGENTS}")
    labels = {"user": f"user{n % USERS}", "project": f"project{n % PROJECTS}", "tags": [f"prompt-v{n % 2 + 1}"]}
    made["thread"]["meta:labels"] = labels | {"branch": f"branch{n % 3}", "environment": "production"}
    return made


@pytest.fixture
async def fleet(gateway_settings: Any) -> list[Any]:
    runs = [run_of(n) for n in range(RUNS)]
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        for first in range(0, RUNS, 50):  # the loop of the gateway goes on in between
            await write_turns(store, runs[first : first + 50])
    return runs


def tokens(runs: list[Any], **labels: str) -> int:
    """What plain Python sums up of the runs with these labels."""
    known = [run for run in runs if labels.items() <= run["thread"]["meta:labels"].items()]
    return sum(run["turn"]["messages"][0]["usage"]["input_tokens"] for run in known)


async def test_what_did_the_conversations_of_a_user_cost_last_week(
    fleet: list[Any], http: httpx.AsyncClient, gateway_settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"user": "user7", "from": "2026-01-17", "to": "2026-01-24"}
    answer = (await http.get("/v1/usage", params=asked)).json()["total"]
    assert (answer["turns"], answer["cost_usd"]) == (RUNS // USERS, pytest.approx(0.001 * RUNS / USERS))
    assert answer["input_tokens"] == tokens(fleet, user="user7")
    monkeypatch.setenv("TURNMILL_STORE", gateway_settings.store_url)
    command = ["usage", "--group-by", "user", "--since", "2026-01-17", "--limit", "100", "--json"]
    said = await asyncio.to_thread(CliRunner().invoke, cli, command)
    rows = {row["user"]: row["input_tokens"] for row in json.loads(said.output)["rows"]}
    assert rows == {f"user{n}": tokens(fleet, user=f"user{n}") for n in range(USERS)}


async def test_what_does_a_branch_of_a_project_cost(fleet: list[Any], http: httpx.AsyncClient) -> None:
    answer = (await http.get("/v1/usage", params={"group_by": "branch", "project": "project3"})).json()
    expected = {f"branch{n}": tokens(fleet, project="project3", branch=f"branch{n}") for n in range(3)}
    assert {row["branch"]: row["input_tokens"] for row in answer["rows"]} == expected


async def test_which_version_of_the_prompt_is_worse(fleet: list[Any], http: httpx.AsyncClient) -> None:
    answer = (await http.get("/v1/usage", params={"group_by": "tag"})).json()
    assert {row["tag"]: row["input_tokens"] for row in answer["rows"]} == {
        "prompt-v1": 100 * RUNS // 2,
        "prompt-v2": 150 * RUNS // 2,
    }


async def test_why_was_a_turn_slow_and_which_tool_failed(gateway_settings: Any, http: httpx.AsyncClient) -> None:
    """A model of 300 ms, a tool of 5 s that fails, and a model again; the tool is a sub-agent in its own thread."""
    slow, below = make_record("slow", "r"), make_record("below", "r2", seconds=2)
    turn, [response] = slow["turn"], slow["turn"]["messages"]
    call = {"part_kind": "tool-call", "tool_name": "search", "tool_call_id": "c1", "args": {}}
    result = {**call, "part_kind": "tool-return", "status": "error", "content": "no answer"}
    asked = {"message_type": "request", "timestamp": "2026-01-20T10:00:06.300Z", "agent_id": "a1", "parts": [result]}
    turn["messages"] = [{**response, "parts": [call]}, asked, {**response, "timestamp": "2026-01-20T10:00:06.500Z"}]
    turn["completed_at"] = "2026-01-20T10:00:07.000Z"
    slow["timings"] = [{"ttft_ms": 250, "duration_ms": 300}, {"ttft_ms": 5_200, "duration_ms": 5_700}]
    link = {"relation": "spawned_from", "thread_id": slow["thread_id"], "metadata": {"tool_call_id": "c1"}}
    below |= {"links": [link], "timings": [{"ttft_ms": 100, "duration_ms": 400}]}
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, [slow, below])
    answer = (await http.get("/v1/threads/slow/steps")).json()[slow["turn_id"]]
    begun = 1_768_903_201_000
    assert [(step["kind"], step["start"] - begun, step["end"] - begun, step["status"]) for step in answer] == [
        ("model", 0, 300, "complete"),
        ("tool", 300, 5_300, "error"),
        ("model", 5_300, 6_000, "complete"),
    ]
    [of_sub_agent] = answer[1]["steps"]
    assert (of_sub_agent["start"] - begun, of_sub_agent["end"] - begun) == (1_000, 1_400)


async def test_users_with_any_name_are_erased(gateway_settings: Any, http: httpx.AsyncClient) -> None:
    names = ["team/ada", "/", "a/../b", "100%", "ada?x#y"]
    records = [make_record(f"of{n}", f"r{n}") for n in range(len(names))]
    for made, name in zip(records, names, strict=True):
        made["thread"]["meta:labels"] = {"user": name}
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, records)
    for name in names:
        answer = await http.delete(f"/v1/users/{quote(name, safe='')}")
        assert (answer.status_code, answer.json()["threads"]) == (200, 1), name


async def test_whose_conversations_and_of_what_project(fleet: list[Any], http: httpx.AsyncClient) -> None:
    wanted = {"user": "user7", "project": "project7", "branch": "branch1", "limit": 100}
    page = (await http.get("/v1/threads", params=wanted)).json()["threads"]
    assert {line["external_id"] for line in page} == {
        run["thread"]["external_id"]
        for run in fleet
        if {"user": "user7", "branch": "branch1"}.items() <= run["thread"]["meta:labels"].items()
    }
    assert page[0]["labels"] == {
        "user": ["user7"],
        "project": ["project7"],
        "branch": ["branch1"],
        "environment": ["production"],
        "tag": ["prompt-v2"],
    }
    found = (await http.get("/v1/search", params={"q": "hello", "user": "user7", "limit": 100})).json()["results"]
    assert len(found) == RUNS // USERS


async def test_a_user_is_erased_over_http(fleet: list[Any], http: httpx.AsyncClient) -> None:
    answer = await http.delete("/v1/users/user7")
    assert answer.json() == {"threads": RUNS // USERS, "held": []}
    assert (await http.get("/v1/threads", params={"user": "user7"})).json()["threads"] == []
    assert (await http.get("/v1/usage", params={"user": "user7"})).json()["total"]["turns"] == 0
    assert (await http.get("/v1/usage")).json()["total"]["turns"] == RUNS - RUNS // USERS
