"""Deltas that are applied at once do what they do one by one, whatever comes between them, and however they look."""

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.dialect import Handler
from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.bench.streams import STREAMS
from tests.corpus import compare_wires
from tests.property.records import envelope
from topics.turn_record import encode

NAMES = sorted(name for name, dialect in DIALECTS.items() if dialect.stretches)
CORPUS = Path(compare_wires.__file__).parent
OTHERS = {"vercel-ai": "vercel-ai/*.sse", "pydantic-ai": "pydantic-ai/2*/*.pai_events.jsonl"}  # beside the wires'
MOST = 60  # events of a recording
ODD: list[Any] = [None, True, False, 0, 1, 1.0, "", "x", {}, [], {"text": "x"}, ["x"]]


@cache
def known(dialect: str) -> list[list[Any]]:
    if dialect in OTHERS:
        streams = sorted(CORPUS.glob(OTHERS[dialect]))
    else:
        streams = [recording.stream for recording in compare_wires.recordings(dialect)]
    found = [compare_wires.events(dialect, stream.read_bytes())[:MOST] for stream in streams]
    return [events for events in found if events]


def places(value: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of a JSON value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def streams(draw: st.DrawFn, dialect: str) -> list[Any]:
    """A recording whose events come several times in a row, some of them with a value that none would have there."""
    found = []
    for event in draw(st.sampled_from(known(dialect))):
        for _ in range(draw(st.sampled_from([1, 1, 1, 3, 6]))):
            copied = copy.deepcopy(event)
            where = places(copied)
            if where and draw(st.integers(0, 9)) == 0:
                holder, key = draw(st.sampled_from(where))
                if isinstance(holder, dict) and draw(st.booleans()):
                    holder.pop(key)
                else:
                    holder[key] = draw(st.sampled_from(ODD))
            found.append(copied)
    return found


def outcome(dialect: str, envelopes: list[Any]) -> tuple[list[bytes], list[str]]:
    """The run's records, and why events were refused."""
    records, refused = assemble(DIALECTS[dialect], copy.deepcopy(envelopes))
    return [encode(record) for record in records], [refusal.reason for refusal in refused]


@pytest.mark.parametrize("dialect", NAMES)
@given(st.data())
@settings(max_examples=60)
def test_a_stretch_does_what_its_events_do_one_by_one(dialect: str, data: st.DataObject) -> None:
    events = data.draw(streams(dialect))
    one_by_one = [envelope(dialect, [event], seq) for seq, event in enumerate(events)]
    assert outcome(dialect, [envelope(dialect, events, 0)]) == outcome(dialect, one_by_one)


@pytest.mark.parametrize("dialect", NAMES)
def test_few_of_an_answers_deltas_reach_their_handler(dialect: str) -> None:
    events, handled = STREAMS[dialect]([f"word {n} " for n in range(100)]), []

    def counted(handle: Handler) -> Handler:
        return lambda builder, event: (handled.append(event), handle(builder, event))[1]

    wire = DIALECTS[dialect]
    handlers = {kind: counted(handle) for kind, handle in wire.handlers.items()}
    assemble(replace(wire, handlers=handlers, unknown=counted(wire.unknown)), [envelope(dialect, events, 0)])
    assert len(handled) < 15
