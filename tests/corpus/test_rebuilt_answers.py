"""What is rebuilt of a stored answer says, whole and streamed, what the recorded stream said: the hash is the same."""

from itertools import zip_longest
from typing import Any

import pytest

from pipeline.dialects.rebuilt_answers import WRITERS, Answered, answers, body_of, events_of, own_events, segments
from pipeline.turns.canonical import essence, turn_hash
from tests.corpus.compare_wires import Recording, recordings, thread
from turnmill.wire.registry import WIRES

RECORDINGS = [one for dialect in WRITERS for one in recordings(dialect)]


def heard(dialect: str, answer: Answered, *, streamed: bool) -> list[dict[str, Any]]:
    """What a capture hears of an answer that is rebuilt. Whole, an answer has no place for events beside it."""
    body, own = body_of(dialect, answer), own_events(dialect, answer)
    if answer.status is not None:
        return [{WIRES[dialect].kind: "turnmill.error", "status": answer.status, "body": body}]
    return events_of(dialect, body, own) if streamed or own else [body]


@pytest.mark.parametrize("form", ["stream", "whole"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: f"{one.dialect}-{one.stream.stem}")
def test_a_rebuilt_answer_has_the_hash_of_the_recorded_one(recording: Recording, form: str) -> None:
    dialect = recording.dialect
    before = recording.assembled()["turns"][-1]
    calls = segments(dialect, recording.events())
    asked = [[one for one in call if one.get(WIRES[dialect].kind) == "turnmill.request"] for call in calls]
    again = [heard(dialect, answer, streamed=form == "stream") for answer in answers(before)]
    if before["completion_status"] == "complete":  # calls that broke off, and were tried again, left nothing
        asked = asked[len(asked) - len(again) :] if len(asked) > len(again) else asked
    said = [event for pair in zip_longest(asked, again, fillvalue=[]) for some in pair for event in some]
    after = thread(dialect, said, recording.info)["turns"][-1]
    assert turn_hash(after) == turn_hash(before), (essence(after), essence(before))
