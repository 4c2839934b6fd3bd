"""The Agents SDK's streams: any delivery gives the same turns; one that breaks off shows only what was said."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, text_of
from tests.corpus import compare_wires
from tests.corpus.compare_wires import content, neutral, recordings, texts
from tests.property.openai_agents_streams import items_alone, runs, streams
from tests.property.records import deliveries, envelope
from tests.support.assembled import assembled
from topics.thread_rules import check
from topics.turn_record import encode

RUNS = [pytest.param(run, id=run.stream.stem) for run in recordings("openai-agents")]
KEYS = ("text", "refusal")


def records(envelopes):
    found, _ = assemble(DIALECTS["openai-agents"], envelopes)
    return [encode(record) for record in found]


def errors(document):
    return [finding for finding in check(document) if finding.severity == "error"]


def expected(steps):
    messages = []
    for items, outputs in steps:
        messages.append(["response", [part for item in items for part in said_by(item)]])
        returns = [["tool-return", item["call_id"], item["output"], "success"] for item in outputs]
        messages.append(["request", returns])
    return neutral(messages)


def said_by(item):
    if item["type"] == "message":
        return [["text", item["content"][0]["text"]]]
    if item["type"] == "reasoning":
        return [["thinking", item["summary"][0]["text"]]]
    return [["tool-call", item["name"], item["call_id"], json.loads(item["arguments"])]]


def texts_in(value):
    """Every text of these events, and what deltas of one kind are together."""
    deltas: dict[tuple, str] = {}
    found: list[str] = []

    def walk(item):
        if isinstance(item, dict):
            if isinstance(item.get("delta"), str):
                place = item["type"], item.get("output_index"), item.get("content_index"), item.get("summary_index")
                deltas[place] = deltas.get(place, "") + item["delta"]
            found.extend(item[key] for key in KEYS if isinstance(item.get(key), str))
            for inner in item.values():
                walk(inner)
        elif isinstance(item, list):
            for inner in item:
                walk(inner)

    walk(value)
    return [*found, *deltas.values()]


@given(st.data())
def test_a_run_says_what_its_items_say(data):
    steps = data.draw(runs())
    got = assembled("openai-agents", data.draw(streams(steps)), end="complete")
    assert content(got.agent_turns) == expected(steps)
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == sum(10 + n for n in range(len(steps)))
    assert not got.refused
    assert not errors(got.document)


@given(st.data())
def test_items_alone_say_the_same(data):
    steps = data.draw(runs())
    assert content(assembled("openai-agents", items_alone(steps), end="complete").agent_turns) == expected(steps)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_gives_the_same_records(data):
    events = data.draw(streams(data.draw(runs())))
    whole = records([envelope("openai-agents", events, 0)])
    assert records(data.draw(deliveries("openai-agents", events))) == whole


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_of_a_recorded_run_gives_the_same_records(data):
    events = data.draw(st.sampled_from(recordings("openai-agents"))).events()
    whole = records([envelope("openai-agents", events, 0)])
    assert records(data.draw(deliveries("openai-agents", events))) == whole


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_that_breaks_off_anywhere(run):
    events = run.events()
    known = texts_in(events)
    resumed = (run.info.get("request") or {}).get("resumed")
    for end in range(len(events) + 1):
        got = assembled("openai-agents", events[:end])
        assert [turn["completion_status"] for turn in got.agent_turns] == ["interrupted"]
        assert resumed or not errors(got.document)
        assert all(any(text in whole for whole in known) for text in texts(got.agent_turns))
    assert text_of("openai-agents", events).startswith(text_of("openai-agents", events[: len(events) // 2]))


@given(st.data())
@settings(max_examples=60)
def test_a_recorded_run_that_breaks_off_at_any_byte(data):
    run = data.draw(st.sampled_from(recordings("openai-agents")))
    stream = run.stream.read_bytes()
    events = compare_wires.events("openai-agents", stream[: data.draw(st.integers(0, len(stream)))])
    got = assembled("openai-agents", events, end="disconnected")
    known = texts_in(run.events())
    assert [turn["completion_status"] for turn in got.agent_turns] == ["interrupted"]
    assert all(any(text in whole for whole in known) for text in texts(got.agent_turns))


@given(st.data())
@settings(max_examples=60)
def test_a_stream_with_a_hole_shows_nothing_that_was_not_said(data):
    events = data.draw(streams(data.draw(runs())))
    lost = data.draw(st.integers(0, len(events) - 2))
    rest = [envelope("openai-agents", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["openai-agents"], rest)
    assert {record["status"] for record in found} == {"interrupted"}
    known = texts_in(events)
    assert all(any(text in whole for whole in known) for record in found for text in texts(record["turn"]))
