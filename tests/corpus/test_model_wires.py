"""Recorded answers of models' APIs against what their clients made of the same bytes.

`wires/NAME/sdk.json`: the package and its version, and of each stream beside it whether it is complete, its texts, its
calls, and the tokens of the input and the output; what the package does not say is not there.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import recognise
from tests.corpus.compare_wires import errors
from tests.support.assembled import Assembled, assembled
from turnmill.wire.framing import decode

WIRES = Path(__file__).with_name("wires")
FILES = [
    path.with_name(name) for path in sorted(WIRES.glob("*/sdk.json")) for name in json.loads(path.read_bytes())["runs"]
]
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")


def truth_of(path: Path) -> dict[str, Any]:
    return json.loads(path.with_name("sdk.json").read_bytes())["runs"][path.name]


@cache
def events_of(path: Path) -> list[Any]:
    framed = decode(path.read_bytes(), DIALECTS[path.parent.name].wire)
    return [item.event for item in framed if item.event is not None]


def texts(run: Assembled, kind: str) -> str:
    """What was said in the finished responses, and in those that broke off."""
    messages = [m for turn in run.agent_turns for m in (*turn["messages"], *partial(turn))]
    return "".join(p["content"] for m in messages for p in m.get("parts", ()) if p["part_kind"] == kind)


def partial(turn: dict[str, Any]) -> list[Any]:
    return (turn.get("meta:partial") or {}).get("messages", [])


@every_file
def test_a_stream_is_what_its_client_made_of_it(path: Path) -> None:
    run, truth = assembled(path.parent.name, events_of(path), end="disconnected"), truth_of(path)
    assert run.refused == []
    assert not errors(run.document)
    turn = run.agent_turns[-1]
    assert (turn["completion_status"] == "complete") == truth["complete"]
    assert texts(run, "text") == truth.get("text", texts(run, "text"))
    if "thinking" in truth:
        assert texts(run, "thinking") == truth["thinking"]
    if "calls" in truth:
        parts = [p for m in run.messages("response") for p in m["parts"] if p["part_kind"] == "tool-call"]
        assert [[part["tool_name"], part["args"]] for part in parts] == truth["calls"]
    if "tokens" in truth:
        usage = turn.get("total_usage") or {}
        assert [usage.get("input_tokens"), usage.get("output_tokens")] == truth["tokens"]


@every_file
def test_its_wire_is_recognised(path: Path) -> None:
    dialect = recognise(path.read_bytes())
    assert dialect is not None
    assert dialect.name == path.parent.name


@every_file
def test_a_stream_that_stops_anywhere_keeps_what_was_seen(path: Path) -> None:
    events, dialect = events_of(path), DIALECTS[path.parent.name]
    for count in range(1, len(events)):
        run = assembled(dialect.name, events[:count], end="disconnected")
        assert not errors(run.document)
        shown = "".join(each.text for event in events[:count] for each in dialect.shows(event) if each.kind == "text")
        assert shown in texts(run, "text")


@every_file
def test_any_batches_give_the_same_turns(path: Path) -> None:
    """The events of a kin are translated one by one: nothing may hang on where a record ends."""
    events, rng = events_of(path), random.Random(path.name)
    once = assembled(path.parent.name, events, end="disconnected").document
    for _ in range(5):
        cuts = sorted(rng.sample(range(len(events) + 1), min(len(events), 4)))
        batches = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True) if a < b]
        assert assembled(path.parent.name, *batches, end="disconnected").document == once
