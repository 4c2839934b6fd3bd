"""Recordings of wires that are another one's kin against what the packages' own readers ended with."""

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import recognise
from tests.corpus.compare_wires import Recording, judge, recordings
from tests.support.assembled import assembled
from turnmill.wire.framing import decode, decoder_for

RECORDINGS = [
    recording
    for wire in ("bedrock", "mastra", "openai-agents-js", "openai-realtime", "strands")
    for recording in recordings(wire)
]
each = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.stream.name)


@each
def test_it_is_what_its_package_made_of_it(recording: Recording) -> None:
    judge(recording.assembled(), recording.truth)


@each
def test_its_wire_is_recognised(recording: Recording) -> None:
    found = recognise(recording.stream.read_bytes())
    assert found is not None
    assert found.name == recording.dialect


@each
def test_pieces_and_batches_change_nothing(recording: Recording) -> None:
    stream, wire = recording.stream.read_bytes(), DIALECTS[recording.dialect].wire
    decoder = decoder_for(wire)
    pieces = [item.event for at in range(0, len(stream), 7) for item in decoder.feed(stream[at : at + 7])]
    pieces += [item.event for item in decoder.close()]
    assert pieces == [item.event for item in decode(stream, wire)]
    said = recording.events()
    assert (
        assembled(recording.dialect, *[[event] for event in said]).document
        == assembled(recording.dialect, said).document
    )
