"""Recorded runs of Pydantic AI 1.20, 1.107 and 2.68: their messages come back as the SDK itself had them."""

import pytest

from pipeline.dialects.pydantic_ai.formats import messages
from tests.corpus.compare_pydantic import Recording, assembled_with_refusals, complete_cycles, content, full, recordings
from topics.thread_rules import check

ALL = list(recordings())
WITH_RESULT = [recording for recording in ALL if recording.has_result and recording.complete]
COMPLETE = [recording for recording in ALL if recording.complete]

# 1.x tells its event handlers nothing of a retry that answers no tool: the prompt and its generated id are lost.
UNTOLD_RETRIES = {
    "1.20.0/output_native_retry",
    "1.20.0/output_validator_retry",
    "1.107.10/output_native_retry",
    "1.107.10/output_validator_retry",
}


def by_name(recording: Recording) -> str:
    return recording.name


@pytest.mark.parametrize("run", ALL, ids=by_name)
def test_what_was_said_and_done(run: Recording) -> None:
    document, refused = assembled_with_refusals(run.events)
    assert not refused
    assert not [finding for finding in check(document) if finding.severity == "error" and finding.rule != 2]
    turn = document["turns"][-1]
    assert turn["completion_status"] == ("complete" if run.complete else "interrupted")
    assert content(messages(document)) == content(run.new if run.complete else complete_cycles(run.new))


@pytest.mark.parametrize("run", WITH_RESULT, ids=by_name)
def test_every_field_survives(run: Recording) -> None:
    document, _ = assembled_with_refusals(run.events)
    assert full(messages(document)) == full(run.new)


@pytest.mark.parametrize("run", COMPLETE, ids=by_name)
def test_events_alone(run: Recording) -> None:
    events = [event for event in run.events if event.get("event_kind") != "agent_run_result"]
    document, refused = assembled_with_refusals(events, end="complete")
    assert not refused
    assert document["turns"][-1]["completion_status"] == "complete"
    same = content(messages(document)) == content(run.new)
    assert same is (run.name not in UNTOLD_RETRIES)


def test_the_recordings_are_there() -> None:
    assert len(ALL) > 100
    assert len(WITH_RESULT) > 100
    assert {run.name for run in ALL} >= UNTOLD_RETRIES
