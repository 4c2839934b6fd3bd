"""Conversations of real SDKs that fork: each branch is what its client had on the screen."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.turns.branches import one_branch
from pipeline.turns.thread_document import thread_document
from tests.sdks.python_sdks import run
from tests.sdks.recordings import by_run
from tests.support.forked import said
from tests.support.spools import away
from tests.support.workers import environment
from topics.turn_record import TurnRecord


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, list[str]], dict[str, Any]]]:
    """By form: what was on the screen behind each run, and the thread that was made of them."""
    settings = away(Path(tmp_path_factory.mktemp("spool")))
    screens = run("langgraph", "langgraph_forks.py", variables=environment(settings))
    records = by_run(settings)
    return {form: (shown, thread([records[run_id] for run_id in shown])) for form, shown in screens.items()}


def thread(runs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    turns: list[TurnRecord] = []
    for envelopes in runs:
        made, refused = assemble(DIALECTS["langgraph"], envelopes)
        assert refused == []
        turns += made
    return thread_document(runs[0][0]["thread_id"], turns)


@pytest.mark.parametrize("form", ["checkpoints and values", "checkpoints and updates", "debug", "values", "events"])
def test_a_graph_that_goes_on_from_checkpoints(forms: Any, form: str) -> None:
    screens, document = forms[form]
    for run_id, screen in screens.items():
        shown = said(one_branch(document, run_id))
        assert shown[: len(screen)] == screen, run_id
    assert said(one_branch(document)) == screen
