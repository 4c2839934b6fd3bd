"""Recorded streams of the wires against what their official SDKs made of the same bytes."""

import re
from collections.abc import Callable
from json import dumps
from typing import Any, Final

import pytest

from pipeline.dialects import DIALECTS, FORMATS, shown
from pipeline.dialects.history import Origin, thread
from tests.corpus.compare_wires import Recording, errors, events, judge, recordings, texts
from tests.corpus.compare_wires import thread as assembled

ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)


def is_of_root(event: Any, *kinds: str) -> bool:
    """Whether an event of LangGraph says one of these of the graph itself: `astream_events`, or protocol v3."""
    match event["data"] if event.get("event") in ("events", "lifecycle") else event:
        case {"method": "lifecycle", "params": {"namespace": [], "data": {"event": str(kind)}}}:
            return kind in kinds
        case {"event": str(kind), "parent_ids": []}:
            return kind in kinds
    return False


A2A_ENDS: Final = ("completed", "input-required", "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
# The wires whose recordings are here, and the events with which a stream says itself that it ended well.
GOOD_ENDS: Final[dict[str, Callable[[Any], bool]]] = {
    "a2a": lambda event: '"message"' in dumps(event) or any(f'"{state}"' in dumps(event) for state in A2A_ENDS),
    "acp": lambda event: event.get("result", {}).get("stopReason") == "end_turn",
    "ag-ui": lambda event: event["type"] == "RUN_FINISHED",
    "claude-code": lambda event: event["type"] == "result" and not event["is_error"],
    "codex": lambda event: event.get("type") == "turn.completed",
    "gemini-cli": lambda event: event["type"] == "result" and event["status"] == "success",
    "langgraph": lambda event: (
        is_of_root(event, "on_chain_end", "completed", "interrupted") or event.get("event") == "end"
    ),
    "opencode": lambda event: event["type"] == "step_finish" and event["part"]["reason"] != "tool-calls",
}
CUTS: Final = 40  # of one stream
RECORDINGS = [recording for wire in GOOD_ENDS for recording in recordings(wire)]

every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.stream.stem)


def takes_back(event: Any) -> bool:
    """A node removes a message: nobody shall see it any more."""
    return '"type": "remove"' in dumps(event)


def is_held(text: str, held: str) -> bool:
    """Whether what was shown is there; halves of characters are mended."""
    return all(piece in held for piece in re.split("[\ud800-\udfff]", text))


def status(document: dict[str, Any]) -> str:
    turns = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    return turns[-1]["completion_status"] if turns else "interrupted"


def notices(document: dict[str, Any]) -> str:
    """What the program said that runs the agent."""
    messages = (message for turn in document["turns"] for message in turn.get("messages", ()))
    return "".join(m["event_data"]["content"] for m in messages if m.get("event_type") == "data-app-notice")


@every_recording
def test_a_stream_is_what_the_sdk_made_of_it(recording: Recording) -> None:
    judge(recording.assembled(), recording.truth)


@every_recording
def test_a_stream_that_stops_anywhere_keeps_what_was_seen_and_is_not_complete(recording: Recording) -> None:
    said, ends = recording.events(), GOOD_ENDS[recording.dialect]
    info = {key: value for key, value in recording.info.items() if key != "end"}
    for count in range(1, len(said)):
        got = assembled(recording.dialect, said[:count], info)
        assert status(got) == "interrupted" or any(map(ends, said[:count]))
        assert not errors(got)
        if status(got) == "interrupted" and not any(map(takes_back, said[:count])):
            kept = ("messages", "meta:partial", "meta:retracted")
            held = "".join(texts([[turn.get(key) for key in kept] for turn in got["turns"]])) + notices(got)
            seen = [piece for event in said[:count] for piece in shown(recording.dialect, event)]
            assert [piece for piece in seen if piece.kind != "tool" and not is_held(piece.text, held)] == []


def beginning(recording: Recording) -> int | None:
    """Behind which event the stream needs its own end; None where it has none."""
    if recording.dialect != "langgraph":
        return 0
    begun = (is_of_root(event, "on_chain_start", "running") for event in recording.events())
    return next((number for number, told in enumerate(begun) if told), None)


@pytest.mark.parametrize(
    "recording", [one for one in RECORDINGS if beginning(one) is not None], ids=lambda one: one.stream.stem
)
def test_where_a_wire_has_an_end_its_publisher_has_no_say(recording: Recording) -> None:
    said, ends, first = recording.events(), GOOD_ENDS[recording.dialect], beginning(recording)
    assert first is not None
    for count in range(first + 1, len(said), max(1, len(said) // CUTS)):
        got = assembled(recording.dialect, said[:count], {**recording.info, "end": "complete"})
        assert status(got) == "interrupted" or any(map(ends, said[:count]))


@every_recording
def test_a_stream_that_stops_within_an_event_is_that_without_it(recording: Recording) -> None:
    stream, said = recording.stream.read_bytes(), recording.events()
    for cut in range(1, len(stream), max(1, len(stream) // 20)):
        whole = events(recording.dialect, stream[:cut])
        assert whole == said[: len(whole)]


@every_recording
def test_messages_go_out_and_come_back(recording: Recording) -> None:
    document = recording.assembled()
    for name in (form.name for form in DIALECTS[recording.dialect].formats):
        form = FORMATS[name]
        assert form.reader is not None
        messages = form.write(document)
        again = thread(form.reader, messages, ORIGIN)
        assert not errors(again)
        assert form.write(again) == messages
