"""Any valid event stream gives the SDK's own messages, however it was cut into records."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.pydantic_ai.formats import messages
from pipeline.turns.thread_document import thread_document
from tests.corpus.compare_pydantic import THREAD_ID, content, full
from tests.property.pydantic_streams import Stream, streams
from topics.thread_rules import check
from topics.turn_record import encode

Envelope = dict[str, Any]


def records(events: list[dict[str, Any]], cuts: list[int]) -> list[Envelope]:
    """The events, ten milliseconds apart, in records that start at 0 and at `cuts`."""
    bounds = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    return [
        {
            "thread_id": THREAD_ID,
            "run_id": "run",
            "agent_id": "agent",
            "seq": start,
            "ts": 1_768_903_200_000 + 10 * start,
            "events": events[start:end],
            "dt": [10 * n for n in range(end - start)],
            **({"end": "complete"} if end == len(events) else {}),
        }
        for start, end in pairwise(bounds)
    ]


def document(envelopes: list[Envelope]) -> dict[str, Any]:
    turns, refused = assemble(DIALECTS["pydantic-ai"], envelopes)
    assert not refused
    return thread_document(THREAD_ID, turns)


@given(streams())
def test_events_alone_give_what_was_said_and_done(stream: Stream) -> None:
    thread = document(records(stream.events, []))
    assert not [finding for finding in check(thread) if finding.severity == "error"]
    assert content(messages(thread)) == content(stream.messages)


@given(streams(), streams())
def test_the_result_gives_every_field(before: Stream, stream: Stream) -> None:
    thread = document(records([*stream.events, stream.result(before.messages)], []))
    assert not [finding for finding in check(thread) if finding.severity == "error"]
    assert full(messages(thread)) == full(stream.messages)
    written = [part["args"] for message in messages(thread) for part in message["parts"] if "args" in part]
    given_args = [part["args"] for message in stream.messages for part in message["parts"] if "args" in part]
    assert written == given_args


@given(stream=streams(), told=st.booleans(), data=st.data())
def test_batches_duplicates_and_disorder_change_nothing(stream: Stream, *, told: bool, data: st.DataObject) -> None:
    events = [*stream.events, *([stream.result([])] if told else [])]
    cuts = st.lists(st.integers(0, len(events)), max_size=8)
    sent = [*records(events, data.draw(cuts)), *records(events, data.draw(cuts))]
    disordered = data.draw(st.permutations(sent))
    once, _ = assemble(DIALECTS["pydantic-ai"], records(events, []))
    again, refused = assemble(DIALECTS["pydantic-ai"], disordered)
    assert not refused
    assert [encode(record) for record in again] == [encode(record) for record in once]


@given(streams(), st.data())
def test_a_hole_leaves_complete_cycles(stream: Stream, data: st.DataObject) -> None:
    sent = records(stream.events, list(range(len(stream.events))))
    lost = data.draw(st.integers(0, len(sent) - 1))
    thread = document([record for number, record in enumerate(sent) if number != lost] or sent)
    assert not [finding for finding in check(thread) if finding.severity == "error"]
    if lost < len(sent) - 1:
        assert thread["turns"][-1]["completion_status"] == "interrupted"
        parts = [told(part) for message in stream.messages for part in message["parts"]]
        assert all(told(part) in parts for message in messages(thread) for part in message["parts"])


def told(part: dict[str, Any]) -> Any:
    """What a part says, however its arguments are written."""
    return content([{"kind": "response", "parts": [part]}])
