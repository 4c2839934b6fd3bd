"""Recorded Chat Completions against what the SDK made of them."""

import pytest

from tests.corpus.compare_wires import Recording, judge, recordings


@pytest.mark.parametrize("recording", recordings("openai-chat"), ids=lambda recording: recording.stream.stem)
def test_a_recording_is_what_the_sdk_made_of_it(recording: Recording) -> None:
    judge(recording.assembled(), recording.truth)
