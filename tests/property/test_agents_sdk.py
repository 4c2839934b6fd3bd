"""Agents SDK streams: records in any form give the same turns, and a client shows what was said."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.turns.thread_document import thread_document
from tests.property.agents_sdk_streams import streams
from tests.property.records import deliveries, envelope
from tests.support.assembled import THREAD_ID, assembled
from topics.thread_rules import check
from topics.turn_record import encode


def shown(messages):
    """The parts of the assistant's messages, as the generator tells them."""
    found = []
    for part in (part for message in messages for part in message["parts"]):
        if part["type"] == "text":
            found.append(part["text"])
        elif part["type"] != "step-start":
            outcome = part["errorText"] if part["state"] == "output-error" else part["output"]
            found.append((part["type"].removeprefix("tool-"), part["toolCallId"], part.get("input"), outcome))
    return found


def records(envelopes):
    found, refused = assemble(DIALECTS["agents-sdk"], envelopes)
    assert not refused
    return [encode(record) for record in found]


@given(streams())
def test_a_client_shows_what_was_said(stream):
    events, parts = stream
    got = assembled("agents-sdk", events)
    assert shown(got.export("vercel-ai")) == parts
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 3, "output_tokens": 2}
    assert not got.refused
    assert not check(got.document)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_gives_the_same_records(data):
    events, _ = data.draw(streams())
    assert records(data.draw(deliveries("agents-sdk", events))) == records([envelope("agents-sdk", events, 0)])


@given(st.data())
@settings(max_examples=60)
def test_a_stream_that_breaks_off_anywhere_keeps_only_complete_cycles(data):
    events, _ = data.draw(streams())
    got = assembled("agents-sdk", events[: data.draw(st.integers(0, len(events) - 1))])
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert not [finding for finding in check(got.document) if finding.severity == "error"]


@given(st.data())
@settings(max_examples=60)
def test_a_hole_leaves_complete_cycles_and_no_torn_text(data):
    events, parts = data.draw(streams())
    lost = data.draw(st.integers(0, len(events) - 1))
    rest = [envelope("agents-sdk", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["agents-sdk"], rest)
    document = thread_document(THREAD_ID, found)
    texts = [
        part["text"] for m in FORMATS["vercel-ai"].write(document) for part in m["parts"] if part["type"] == "text"
    ]
    assert not [finding for finding in check(document) if finding.severity == "error"]
    assert set(texts) <= {part for part in parts if isinstance(part, str)}
