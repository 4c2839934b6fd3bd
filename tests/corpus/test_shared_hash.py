"""One run over several wires has one hash of what all of them carry: the rows of each loss table, on recorded runs."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.shared_hash import CARRIERS, shared_essence, shared_hash
from pipeline.turns.canonical import essence
from tests.support.assembled import assembled
from turnmill.wire.framing import decode

HERE = Path(__file__).parent
RUNS = sorted((HERE / "pydantic-ai").glob("*/*.meta.json"))
PI_RUNS = sorted((HERE / "pi-agent").glob("*/*.agent_events.jsonl"))
STREAMS = {
    "agents-sdk": "agents-sdk/*.sse",
    "pi-agent": "pi-agent/*/*.jsonl",
    "pi-proxy": "pi-proxy/*.sse",
    "pydantic-ai": "pydantic-ai/*/*.pai_events.jsonl",
    "pydantic-ai (events alone)": "pydantic-ai/*/*.pai_events.jsonl",
    "vercel-ai": "vercel-ai/*.sse",
}

Events = list[dict[str, Any]]


def events(dialect: str, path: Path) -> Events:
    return [item.event for item in decode(path.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]


def agent_turn(dialect: str, given: Events, **rest: Any) -> dict[str, Any]:
    (turn,) = assembled(dialect, given, **rest).agent_turns
    return turn


def over_wires(about: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A recorded run's turn, over each wire that it was recorded on."""
    name = about.name.removesuffix(".meta.json")
    native = events("pydantic-ai", about.with_name(f"{name}.pai_events.jsonl"))
    yield "pydantic-ai", agent_turn("pydantic-ai", native)
    if json.loads(about.read_text())["outcome"] in ("complete", "deferred"):
        alone = [event for event in native if event["event_kind"] != "agent_run_result"]
        yield "pydantic-ai (events alone)", agent_turn("pydantic-ai", alone, end="complete")
    release = "" if about.parent.name.startswith("2.") else "1.x "
    for wire in ("vsp.sse", "vsp5.sse"):
        stream = about.with_name(f"{name}.{wire}")
        if stream.exists():
            yield f"pydantic-ai {release}over vercel-ai", agent_turn("vercel-ai", events("vercel-ai", stream))


@pytest.mark.parametrize("about", RUNS, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_a_run_has_one_hash_over_all_its_wires(about: Path) -> None:
    turns = list(over_wires(about))
    for wire, turn in turns:
        for other, same in turns:
            assert shared_essence(turn, wire, other) == shared_essence(same, wire, other)
            assert shared_hash(turn, wire, other) == shared_hash(same, other, wire)


@pytest.mark.parametrize("path", PI_RUNS, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_both_wires_of_pi_carry_the_same(path: Path) -> None:
    compact = path.with_name(path.name.replace(".agent_events.", ".agent_events.compact."))
    full = [record["hash"] for record in assembled("pi-agent", events("pi-agent", path), step=0).records]
    assert full == [record["hash"] for record in assembled("pi-agent", events("pi-agent", compact), step=0).records]


@pytest.mark.parametrize("wire", STREAMS)
def test_no_row_takes_away_what_its_wire_carries(wire: str) -> None:
    """What came over a wire is not in its table of losses. How a run broke off is the publisher's to say."""
    dialect = wire.split(" ", maxsplit=1)[0]
    compared = 0
    for path in sorted(HERE.glob(STREAMS[wire])):
        given = events(dialect, path)
        if "alone" in wire:
            given = [event for event in given if event.get("event_kind") != "agent_run_result"]
        for turn in assembled(dialect, given, end="complete" if dialect == "pydantic-ai" else None).turns:
            assert shared_essence(turn, wire) == essence(turn), path.name
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("wire", sorted(CARRIERS))
def test_another_word_is_another_hash(wire: str) -> None:
    turn = agent_turn(
        "pydantic-ai", events("pydantic-ai", HERE / "pydantic-ai/2.68.0/tool_retry_mixed.pai_events.jsonl")
    )
    changed = copy.deepcopy(turn)
    changed["messages"][-1]["parts"][-1]["content"] += "."
    assert shared_hash(changed, wire) != shared_hash(turn, wire)
    renamed = copy.deepcopy(turn)
    renamed["messages"][0]["parts"][0]["args"] = {"x": 3}
    assert shared_hash(renamed, wire) != shared_hash(turn, wire)


def test_an_unknown_wire_is_an_error() -> None:
    with pytest.raises(KeyError, match="morse"):
        shared_hash({"turn_type": "agent", "messages": []}, "pydantic-ai", "morse")
