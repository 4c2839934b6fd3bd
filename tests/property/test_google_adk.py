"""ADK's streams: any delivery gives the same turns, and one that breaks off shows nothing that was not said."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS, text_of
from pipeline.dialects.history import Origin, thread
from tests.corpus import compare_wires
from tests.corpus.compare_wires import content, recordings, texts
from tests.property.adk_streams import sessions, streams
from tests.property.records import deliveries, envelope
from tests.support.assembled import START, THREAD_ID, assembled
from topics.thread_rules import check
from topics.turn_record import encode

RUNS = [pytest.param(run, id=run.stream.stem) for run in recordings("google-adk")]


def records(envelopes):
    found, _ = assemble(DIALECTS["google-adk"], envelopes)
    return [encode(record) for record in found]


def errors(document):
    return [finding for finding in check(document) if finding.severity == "error"]


def said(events) -> Iterator[str]:
    """What agents said: each whole text, and what fragments of one kind are together."""
    fragments: dict[tuple, str] = {}
    for event in events:
        for part in (event.get("content") or {}).get("parts") or ():
            if not part.get("text"):
                continue
            if event.get("partial"):
                voice = event["author"], event.get("branch"), part.get("thought")
                fragments[voice] = fragments.get(voice, "") + part["text"]
            else:
                yield part["text"]
    yield from fragments.values()


@given(st.data())
def test_fragments_and_silent_events_change_nothing(data):
    session = data.draw(sessions())
    whole = assembled("google-adk", session, end="complete")
    streamed = assembled("google-adk", data.draw(streams(session)), end="complete")
    assert content(streamed.agent_turns) == content(whole.agent_turns)
    assert [turn["total_usage"] for turn in streamed.agent_turns] == [turn["total_usage"] for turn in whole.agent_turns]
    assert not streamed.refused
    assert not errors(streamed.document)


@given(st.data())
def test_a_session_comes_back_as_it_was(data):
    got = assembled("google-adk", data.draw(sessions()), end="complete")
    again = thread(FORMATS["google-adk"].reader, got.export("google-adk"), Origin(THREAD_ID, "agent-1", START))
    assert content(again["turns"]) == content(got.agent_turns)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_gives_the_same_records(data):
    events = data.draw(streams(data.draw(sessions())))
    whole = records([envelope("google-adk", events, 0)])
    assert records(data.draw(deliveries("google-adk", events))) == whole


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_of_a_recorded_run_gives_the_same_records(data):
    events = data.draw(st.sampled_from(recordings("google-adk"))).events()
    whole = records([envelope("google-adk", events, 0)])
    assert records(data.draw(deliveries("google-adk", events))) == whole


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_that_breaks_off_anywhere(run):
    events = run.events()
    known = list(said(events))
    for end in range(len(events) + 1):
        got = assembled("google-adk", events[:end])
        assert [turn["completion_status"] for turn in got.agent_turns] == ["interrupted"]
        assert not errors(got.document)
        assert all(any(text in whole for whole in known) for text in texts(got.agent_turns))
        assert text_of("google-adk", events).startswith(text_of("google-adk", events[:end]))


@given(st.data())
@settings(max_examples=60)
def test_a_recorded_run_that_breaks_off_at_any_byte(data):
    run = data.draw(st.sampled_from(recordings("google-adk")))
    stream = run.stream.read_bytes()
    events = compare_wires.events("google-adk", stream[: data.draw(st.integers(0, len(stream)))])
    got = assembled("google-adk", events, end="disconnected")
    known = list(said(run.events()))
    assert [turn["completion_status"] for turn in got.agent_turns] == ["interrupted"]
    assert all(any(text in whole for whole in known) for text in texts(got.agent_turns))


@given(st.data())
@settings(max_examples=60)
def test_a_stream_with_a_hole_is_interrupted_and_keeps_what_was_whole(data):
    events = data.draw(streams(data.draw(sessions())))
    lost = data.draw(st.integers(0, len(events) - 1))
    rest = [envelope("google-adk", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["google-adk"], rest or [envelope("google-adk", [], 1)])
    assert {record["status"] for record in found} == {"interrupted"} or lost == len(events) - 1
    known = list(said(events))
    assert all(any(text in whole for whole in known) for record in found for text in texts(record["turn"]))
