"""Agents of pi whose hook behind a tool throws, recorded there and then: what is kept is what the agent holds of it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.corpus.compare_pi import kept
from tests.sdks import node_sdks
from tests.support.assembled import assembled
from topics.thread_rules import check

Messages = list[dict[str, Any]]
CASES = (
    "it changes a result",
    "it throws at once",
    "it throws behind a whole cycle",
    "it throws at the second of two calls",
    "it throws at the first of two calls",
)


@cache
def recorded() -> dict[str, dict[str, Any]]:
    with TemporaryDirectory() as folder:
        return dict(node_sdks.run("pi_records.mjs", None, Path(folder)))


def cycles(messages: Messages) -> tuple[Messages, Messages]:
    """-> what stays of a run that broke off, and the answer whose calls were not all executed, with its results."""
    starts = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    for start, end in pairwise([*starts, len(messages)]):
        calls = [block["id"] for block in messages[start]["content"] if block["type"] == "toolCall"]
        results = [message["toolCallId"] for message in messages[start + 1 : end]]
        if sorted(calls) != sorted(results):
            return messages[:start], messages[start:]
    return messages, []


@pytest.mark.parametrize("execution", ["parallel", "sequential"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_what_the_agent_holds_of_it(case: str, execution: str) -> None:
    run = recorded()[f"{case} ({execution})"]
    assert (run["error"] is None) == (case == CASES[0])
    got = assembled("pi-agent", run["events"])
    whole, broken = cycles(kept(run["messages"]))
    assert got.refused == []
    assert check(got.document) == []
    assert got.export("pi-agent") == whole
    (turn,) = got.agent_turns
    assert turn["completion_status"] == ("complete" if run["error"] is None else "interrupted")
    partial = [part for message in turn.get("meta:partial", {}).get("messages", []) for part in message["parts"]]
    said = [block for message in broken[:1] for block in message["content"]]
    assert [part["content"] for part in partial if part["part_kind"] == "text"] == [
        block["text"] for block in said if block["type"] == "text"
    ]
    assert [part["tool_call_id"] for part in partial if part["part_kind"] == "tool-call"] == [
        block["id"] for block in said if block["type"] == "toolCall"
    ]
    if run["error"] is not None:
        assert run["error"] in str(turn)
