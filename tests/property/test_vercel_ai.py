"""UI message streams: records in any form give the same turns, and the message comes back as the SDK has it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.corpus.compare_ui import beside, full, steps
from tests.property.records import deliveries, envelope
from tests.property.vercel_streams import streams
from tests.support.assembled import assembled
from topics.thread_rules import check
from topics.turn_record import encode

REQUEST = {"request": {"messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}}


def errors(document):
    return [finding for finding in check(document) if finding.severity == "error"]


def records(envelopes):
    found, refused = assemble(DIALECTS["vercel-ai"], envelopes)
    assert not refused
    return [encode(record) for record in found]


@given(streams())
def test_the_message_comes_back_as_the_sdk_has_it(made):
    events, truth = made
    got = assembled("vercel-ai", events)
    messages = got.export("vercel-ai")
    assert steps(messages) == steps([truth])
    assert beside(messages) == beside([truth])
    assert full(messages) == full([truth])
    assert not got.refused
    assert not errors(got.document)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_gives_the_same_records(data):
    events, _ = data.draw(streams())
    whole = records([envelope("vercel-ai", events, 0, REQUEST)])
    assert records(data.draw(deliveries("vercel-ai", events, REQUEST))) == whole


@given(st.data())
@settings(max_examples=60)
def test_a_stream_that_breaks_off_anywhere_keeps_only_complete_cycles(data):
    events, _ = data.draw(streams())
    cut = data.draw(st.integers(0, len(events) - 1))
    got = assembled("vercel-ai", events[:cut])
    assert got.agent_turns[-1]["completion_status"] == "interrupted"
    assert not errors(got.document)
    answers = {part["tool_call_id"] for part in got.parts("request")}
    assert {part["tool_call_id"] for part in got.parts("response") if part["part_kind"] == "tool-call"} <= answers


@given(st.data())
@settings(max_examples=60)
def test_any_events_in_any_order_never_stop_a_run(data):
    events = [event for _ in range(2) for event in data.draw(streams())[0]]
    shuffled = data.draw(st.permutations(events))
    got = assembled("vercel-ai", shuffled)
    assert got.records
    got.export("vercel-ai")
    got.export("pydantic-ai")
