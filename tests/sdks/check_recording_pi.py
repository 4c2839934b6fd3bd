"""Agents of pi that fail, recorded there and then: what is kept is what the agent holds of it.

A hook behind a tool that throws is an error result, with which the agent goes on; a model that throws ends the run.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.corpus.compare_pi import kept
from tests.sdks import node_sdks
from tests.support.assembled import assembled
from topics.thread_rules import check

FAILS = "its model fails"
CASES = (
    "it changes a result",
    "it throws at once",
    "it throws behind a whole cycle",
    "it throws at the second of two calls",
    "it throws at the first of two calls",
    FAILS,
)


@cache
def recorded() -> dict[str, dict[str, Any]]:
    with TemporaryDirectory() as folder:
        return dict(node_sdks.run("pi_records.mjs", None, Path(folder)))


@pytest.mark.parametrize("execution", ["parallel", "sequential"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_what_the_agent_holds_of_it(case: str, execution: str) -> None:
    run = recorded()[f"{case} ({execution})"]
    assert (run["error"] is not None) == (case == FAILS)
    got = assembled("pi-agent", run["events"])
    assert got.refused == []
    assert check(got.document) == []
    assert got.export("pi-agent") == kept(run["messages"])
    (turn,) = got.agent_turns
    assert turn["completion_status"] == ("complete" if run["error"] is None else "interrupted")
    assert (run["error"] or "") in str(turn)
