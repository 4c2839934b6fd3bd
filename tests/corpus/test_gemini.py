"""Recorded streams of the Gemini API against what google-genai made of the same bytes."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.corpus.compare_wires import Recording, content, judge, recordings

ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
RECORDINGS = recordings("gemini")
every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.stream.stem)


@every_recording
def test_a_recording_is_what_the_sdk_made_of_it(recording: Recording) -> None:
    judge(recording.assembled(), recording.truth)


@pytest.mark.parametrize(
    "recording", [one for one in RECORDINGS if one.truth["complete"]], ids=lambda recording: recording.stream.stem
)
def test_contents_go_out_and_come_back(recording: Recording) -> None:
    form, document = FORMATS["gemini"], recording.assembled()
    assert form.reader is not None
    contents = form.write(document)
    again = thread(form.reader, contents, ORIGIN)
    assert form.write(again) == contents
    agents = [[turn for turn in one["turns"] if turn["turn_type"] == "agent"] for one in (document, again)]
    assert _spoken(agents[1]) == _spoken(agents[0])


def _spoken(turns: list[dict[str, Any]]) -> list[Any]:
    """Without what the user said in the middle of a run: it begins a turn in histories."""
    return [said for said in content(turns) if said[1][0][0] != "user-prompt"]
