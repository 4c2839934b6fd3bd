"""Agents that start agents, through the store: whose turn is whose, and which thread links to which."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.assembly.offline import assemble
from pipeline.cli.stored.thread_view import nested, view
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread, spawned_threads
from pipeline.stores.turns import write_turns
from tests.corpus import compare_ui
from tests.support.places import ROOT
from topics.thread_key import ThreadKey
from topics.thread_rules import check
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid
from turnmill.wire.framing import decode

CORPUS = ROOT / "tests" / "corpus"
CHAT, CHILD, OTHER = (thread_uuid(name)[0] for name in ("chat", "child", "other"))
START = 1_768_903_200_000
HELLO = [
    {"type": "start"},
    {"type": "start-step"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "Hello"},
    {"type": "text-end", "id": "t"},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "stop"},
]


def events(dialect: str, path: Path) -> list[dict[str, Any]]:
    return [item.event for item in decode(path.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]


def run(
    dialect: str,
    given: list[dict[str, Any]],
    *,
    thread_id: str = CHAT,
    run_id: str = "boss-1",
    ts: int = START,
    **info: Any,
) -> list[TurnRecord]:
    agent_id = run_id.partition("-")[0]
    envelope = {"v": 1, "thread_id": thread_id, "run_id": run_id, "agent_id": agent_id, "dialect": dialect}
    records, refused = assemble(DIALECTS[dialect], [{**envelope, "seq": 0, "ts": ts, "events": given, "run": info}])
    assert not refused
    return records


async def document_of(store: ThreadStore, thread_id: str) -> dict[str, Any]:
    document = await read_thread(store, ThreadKey(thread_id))
    assert document is not None
    assert [finding for finding in check(document) if finding.severity == "error"] == []
    return document


def links(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(link["relation"], link["thread_id"]) for link in document.get("relationships", {}).get("links", [])]


async def shown(store: ThreadStore, thread_id: str) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        for piece in view(await document_of(store, thread_id), await spawned_threads(store, ThreadKey(thread_id))):
            console.print(piece)
    return [line.rstrip(" ─") for line in capture.get().splitlines() if line.strip()]


async def test_a_delegated_run_stands_behind_its_parents(store: ThreadStore) -> None:
    folder = CORPUS / "pydantic-ai" / "2.68.0"
    boss = run("pydantic-ai", events("pydantic-ai", folder / "delegation.pai_events.jsonl"))
    sub = events("pydantic-ai", folder / "delegation.sub-sub_weather-1.pai_events.jsonl")
    weather = run("pydantic-ai", sub, run_id="weather-1", parent_run_id="boss-1", ts=START + 500)
    later = run("vercel-ai", HELLO, run_id="boss-2", ts=START + 60_000)
    await write_turns(store, [*weather, *later, *boss])
    turns = (await document_of(store, CHAT))["turns"]
    tree = [(depth, turn["turn_type"], turn["meta:run_id"]) for depth, turn in nested(turns)]
    own = [(0, "user", "boss-1"), (0, "agent", "boss-1")]
    subs = [(1, turn["turn"]["turn_type"], "weather-1") for turn in weather if turn["turn"]]
    assert tree == [*own, *subs, (0, "agent", "boss-2")]
    lines = await shown(store, CHAT)
    (asked,) = [line for line in lines if "→ ask_weather" in line]
    (looked,) = [line for line in lines if "→ get_weather" in line]
    assert len(looked) - len(looked.lstrip()) == len(asked) - len(asked.lstrip()) + 4
    assert {record["parent"]["run_id"] for record in weather} == {"boss-1"}


async def test_a_sub_agents_own_thread_links_to_where_it_was_spawned(store: ThreadStore) -> None:
    await write_turns(store, run("vercel-ai", HELLO))
    parent = {"parent_run_id": "boss-1", "parent_thread_id": "chat"}
    await write_turns(store, run("vercel-ai", HELLO, thread_id=CHILD, run_id="sub-1", agent_name="Sub", **parent))
    child = await document_of(store, CHILD)
    assert links(child) == [("spawned_from", CHAT)]
    assert child["turns"][0]["meta:parent"] == {"run_id": "boss-1", "thread_id": CHAT}
    assert links(await document_of(store, CHAT)) == []
    assert [summary.thread_id for summary in await spawned_threads(store, ThreadKey(CHAT))] == [CHILD]
    assert await spawned_threads(store, ThreadKey(CHILD)) == ()
    assert f"└ thread {CHILD}  Sub · 1 turn" in await shown(store, CHAT)


async def test_events_of_threadprotocol_link_the_right_threads(store: ThreadStore) -> None:
    told = [
        {"type": "data-tp-agent_handoff", "data": {"from": "boss", "to": "sub"}},
        {"type": "data-tp-thread_spawn", "data": {"spawned_thread_id": "child"}},
        {"type": "data-tp-thread_merge", "data": {"merged_thread_id": "other"}},
        {"type": "data-tp-error", "data": {"error": "no wind"}},
        {"type": "data-tp-thread_end", "data": {"timestamp": "2026-01-20T17:00:00Z"}},
    ]
    await write_turns(store, run("vercel-ai", [*HELLO[:-1], *told, HELLO[-1]]))
    await write_turns(store, run("vercel-ai", HELLO, thread_id=CHILD, run_id="sub-1", parent_thread_id="chat"))
    await write_turns(store, run("vercel-ai", HELLO, thread_id=OTHER, run_id="third-1"))
    chat, child, other = [await document_of(store, thread_id) for thread_id in (CHAT, CHILD, OTHER)]
    assert links(chat) == [("merged_from", OTHER)]
    assert links(child) == [("spawned_from", CHAT)]  # said by both sides, kept once
    assert links(other) == []
    assert chat["metadata"]["meta:ended_at"] == "2026-01-20T17:00:00.000Z"
    system = [message for message in chat["turns"][0]["messages"] if message["message_type"] == "system"]
    assert [(message["event_type"], message["event_data"]) for message in system] == [
        (event["type"], event["data"]) for event in told
    ]


async def test_a_sub_agent_that_is_a_tool_of_the_ai_sdk(store: ThreadStore) -> None:
    path = CORPUS / "vercel-ai" / "v7-sub-agent-as-tool-data-parts.sse"
    await write_turns(store, run("vercel-ai", events("vercel-ai", path)))
    truth = json.loads(path.with_name(f"{path.stem}.uimessage.json").read_text())
    messages = FORMATS["vercel-ai"].write(await document_of(store, CHAT))
    assert compare_ui.steps(messages) == compare_ui.steps([truth])
    assert compare_ui.full(messages) == compare_ui.full([truth])
    assert any(line.startswith("  ◇ data-subagent") for line in await shown(store, CHAT))
