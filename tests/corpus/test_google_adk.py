"""Recorded runs of ADK against the events that its own session kept of them."""

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.corpus.compare_wires import content, judge, recordings, tokens
from tests.support.assembled import START, THREAD_ID

RUNS = [pytest.param(run, id=run.stream.stem) for run in recordings("google-adk")]


@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_what_the_session_has(run):
    judge(run.assembled(), run.truth)


@pytest.mark.parametrize("run", RUNS)
def test_a_session_that_is_given_back_says_the_same(run):
    document = run.assembled()
    turns = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    if not content(turns):
        return
    session = FORMATS["google-adk"].write(document)
    again = thread(FORMATS["google-adk"].reader, session, Origin(THREAD_ID, "app", START))
    assert content(again["turns"][-1:]) == content(turns)
    if turns[-1]["completion_status"] == "complete":
        assert tokens(again["turns"]) == tokens(turns)
