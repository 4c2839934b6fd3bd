"""Chat Completions: records in any form give the same turns, and the client's messages come back."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.property.chat_streams import runs
from tests.property.records import deliveries, envelope
from tests.support.assembled import assembled
from topics import json_text
from topics.thread_rules import check
from topics.turn_record import encode


def records(envelopes: list[dict[str, Any]]) -> list[bytes]:
    found, refused = assemble(DIALECTS["openai-chat"], envelopes)
    assert not refused
    return [encode(record) for record in found]


def read(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With arguments as data: how they were written is not kept."""
    found = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": json_text.loads(call["function"]["arguments"])}}
            for call in message.get("tool_calls", ())
        ]
        found.append({**message, **({"tool_calls": calls} if calls else {})})
    return found


def answered(records: list[Any]) -> list[Any]:
    """The parts of all responses."""
    turns = [record["turn"] for record in records if record["turn"] and record["turn"]["turn_type"] == "agent"]
    responses = [m for turn in turns for m in turn["messages"] if m["message_type"] == "response"]
    return [part for message in responses for part in message["parts"]]


@given(st.data())
@settings(max_examples=60)
def test_the_messages_of_a_run_are_those_of_its_client(data: st.DataObject) -> None:
    events, history = data.draw(runs())
    got = assembled("openai-chat", events)
    assert read(got.export("openai-chat")) == read(history)
    (turn,) = got.agent_turns
    answers = sum(message["role"] == "assistant" for message in history)
    assert (turn["completion_status"], turn["total_usage"]["input_tokens"]) == ("complete", 3 * answers)
    assert not got.refused
    assert not check(got.document)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_gives_the_same_records(data: st.DataObject) -> None:
    events, _ = data.draw(runs())
    whole = records([envelope("openai-chat", events, 0)])
    assert records(data.draw(deliveries("openai-chat", events))) == whole


@given(st.data())
@settings(max_examples=60)
def test_a_hole_leaves_no_torn_answer(data: st.DataObject) -> None:
    events, _ = data.draw(runs())
    lost = data.draw(st.integers(0, len(events) - 1))
    rest = [envelope("openai-chat", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["openai-chat"], rest or [envelope("openai-chat", [], 1)])
    whole, _ = assemble(DIALECTS["openai-chat"], [envelope("openai-chat", events, 0)])
    said = answered(whole)
    assert all(part in said for part in answered(found))
