"""The recorded streams of the wires, as a broker may deliver them: in any batches, twice, and out of order."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.corpus.compare_wires import Recording, recordings, thread
from tests.property.records import deliveries, envelope
from topics.turn_record import encode

NAMES = (
    *("a2a", "acp", "ag-ui", "anthropic", "claude-code", "codex", "gemini", "gemini-cli", "langgraph", "openai-chat"),
    *("openai-responses", "opencode"),
)


@cache
def known(dialect: str) -> list[Recording]:
    return recordings(dialect)


def run_of(recording: Recording) -> dict[str, Any]:
    return {"request": recording.info["request"]} if recording.info.get("request") else {}


def records(dialect: str, envelopes: list[Any]) -> list[bytes]:
    return [encode(record) for record in assemble(DIALECTS[dialect], envelopes)[0]]


@pytest.mark.parametrize("dialect", NAMES)
@given(st.data())
@settings(max_examples=80)
def test_any_delivery_gives_the_same_records(dialect: str, data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(known(dialect)), label="recording")
    events, run = recording.events()[:150], run_of(recording)
    whole = records(dialect, [envelope(dialect, events, 0, run)])
    assert records(dialect, data.draw(deliveries(dialect, events, run))) == whole


@pytest.mark.parametrize("dialect", NAMES)
@given(st.data())
@settings(max_examples=60)
def test_any_events_in_any_order_never_stop_a_run(dialect: str, data: st.DataObject) -> None:
    first, second = (data.draw(st.sampled_from(known(dialect))).events()[:60] for _ in range(2))
    document = thread(dialect, data.draw(st.permutations([*first, *second, *first])), {})
    assert document["turns"]
    for form in DIALECTS[dialect].formats:
        form.write(document)


@pytest.mark.parametrize("dialect", NAMES)
@given(st.data())
@settings(max_examples=60)
def test_a_stream_with_a_hole_is_never_complete(dialect: str, data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(known(dialect)))
    events, run = recording.events()[:150], run_of(recording)
    lost = data.draw(st.integers(1, max(1, len(events) - 2)))
    if lost + 1 < len(events):
        envelopes = [envelope(dialect, events[:lost], 0, run), envelope(dialect, events[lost + 1 :], lost + 1)]
        found = assemble(DIALECTS[dialect], envelopes)[0]
        own = [record for record in found if record["thread_id"] == envelopes[0]["thread_id"]]  # not sub-agents'
        turns = [record["turn"] for record in own if record["turn"]]
        assert turns[-1]["interruption"]["reason"] == "events_lost"
