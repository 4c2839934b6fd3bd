"""Recorded streams of the wires, cut off: complete only with their end, and nothing shown that was not said."""

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.dialects import DIALECTS
from pipeline.turns.text import join
from tests.corpus.compare_wires import Recording, events, recordings, texts, thread
from topics.thread_rules import check

WIRES = ("anthropic", "openai-chat", "openai-responses")
RECORDINGS = [recording for wire in WIRES for recording in recordings(wire)]
CUTS = 40  # of one stream


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, mended."""
    if isinstance(value, str):
        yield join([value])
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def look_at(recording: Recording, said: list[dict[str, Any]]) -> None:
    """A stream without its rest, whatever its publisher believes."""
    dialect = DIALECTS[recording.dialect]
    ended = None
    for event in said:
        ended = dialect.ended(event, ended)
    heard = [piece for event in said for piece in dialect.shows(event)]
    written = join([piece.text for piece in heard if piece.kind == "text"])
    thought = join([piece.text for piece in heard if piece.kind == "thinking"])
    whole = set(strings(said))  # texts that came in one piece
    for end in ("complete", "disconnected", None):
        document = thread(recording.dialect, said, {**recording.info, "end": end})
        assert not [finding for finding in check(document) if finding.severity == "error"]
        turn = [turn for turn in document["turns"] if turn["turn_type"] == "agent"][-1]
        if turn["completion_status"] == "complete":
            assert ended == "complete"
        messages = [*turn["messages"], *turn.get("meta:partial", {}).get("messages", ())]
        spoken = [message for message in messages if message["message_type"] == "response"]
        assert all(text in written or text in thought or text in whole for text in texts(spoken))


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.stream.stem)
def test_a_stream_that_is_cut_between_events(recording: Recording) -> None:
    said = recording.events()
    for cut in range(0, len(said), max(1, len(said) // CUTS)):
        look_at(recording, said[:cut])


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.stream.stem)
def test_a_stream_that_is_cut_at_any_byte(recording: Recording) -> None:
    data = recording.stream.read_bytes()
    for cut in range(0, len(data), max(1, len(data) // 10)):
        look_at(recording, events(recording.dialect, data[:cut]))
