"""Recorded runs of the Agents SDK against the items that it made of them itself."""

import pytest

from tests.corpus.compare_wires import content, judge, neutral, recordings
from topics.thread_rules import check


def is_resumed(run):
    """Whether its first result answers a call of the run before."""
    return bool((run.info.get("request") or {}).get("resumed"))


RUNS = [pytest.param(run, id=run.stream.stem) for run in recordings("openai-agents") if not is_resumed(run)]
RESUMED = [pytest.param(run, id=run.stream.stem) for run in recordings("openai-agents") if is_resumed(run)]


@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_what_the_sdk_has(run):
    judge(run.assembled(), run.truth)


@pytest.mark.parametrize("run", RESUMED)
def test_a_resumed_run_begins_with_a_result(run):
    document = run.assembled()
    (turn,) = document["turns"]
    assert turn["messages"][0]["parts"][0]["part_kind"] == "tool-return"
    assert content([turn]) == neutral(run.truth["content"])
    assert {finding.rule for finding in check(document)} == {2}, "the call is in an earlier turn of its thread"
