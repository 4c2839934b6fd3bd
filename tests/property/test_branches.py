"""Conversations that fork at random: the branch of each run is what its client had on the screen."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.turns.branches import one_branch
from pipeline.turns.thread_document import thread_document
from tests.support.assembled import START, THREAD_ID
from tests.support.forked import document, run, said, versions
from tests.support.histories import chat, ui
from topics.turn_record import TurnRecord


@dataclass(frozen=True)
class Step:
    """What a client does next: from the screen of the run `at`, it cuts off `cut` exchanges, and asks again or anew."""

    at: int
    cut: int
    again: bool
    words: str


STEPS = st.lists(
    st.builds(Step, st.integers(0, 9), st.integers(0, 3), st.booleans(), st.sampled_from(["yes", "go on", "why?"])),
    min_size=1,
    max_size=10,
)


def played(steps: list[Step], dialect: str) -> tuple[list[list[TurnRecord]], list[list[str]]]:
    """-> the runs of a conversation, and what was on the screen behind each."""
    runs, screens, ids = [], [], []
    for number, step in enumerate(steps):
        at = step.at % len(screens) if screens else 0
        screen = list(screens[at]) if screens else []
        known = list(ids[at]) if screens else []
        keep = max(0, len(screen) - 2 * step.cut)
        if dialect == "openai-chat" and screens and keep == 0:
            keep = 2  # first words without ids say nothing
        screen, known = screen[:keep], known[:keep]
        trigger = "submit-message"
        if step.again and screen and (dialect == "vercel-ai" or keep > 2):
            screen.pop()
            known.pop()
            trigger = "regenerate-message"
        else:
            screen.append(step.words)
            known.append(f"user-{number}")
        answer = f"answer {number}"
        messages: list[dict[str, Any]] = chat(*screen)
        if dialect == "vercel-ai":
            messages = ui(*screen)
            for message, one in zip(messages, known, strict=True):
                message["id"] = one
            if number and len(screen) == 1 and trigger == "submit-message":  # the edited first message keeps its id
                messages[0]["id"] = known[0] = ids[0][0]
        runs.append(run(number, answer, dialect, request={"messages": messages, "trigger": trigger}))
        screens.append([*screen, answer])
        ids.append([*known, answer])
    return runs, screens


@pytest.mark.parametrize("dialect", ["vercel-ai", "openai-chat"])
@given(steps=STEPS, seed=st.integers(0, 3))
def test_each_branch_is_what_its_client_had_on_the_screen(dialect: str, steps: list[Step], seed: int) -> None:
    runs, screens = played(steps, dialect)
    thread = document(*random.Random(seed).sample(runs, len(runs)))
    assert said(one_branch(thread)) == screens[-1]
    for number, screen in enumerate(screens):
        branch = said(one_branch(thread, f"run-{number}"))
        assert branch[: len(screen)] == screen
        others = versions(thread, f"run-{number}")
        assert all(versions(thread, other) == others for other in others)


@pytest.mark.parametrize("dialect", ["vercel-ai", "openai-chat"])
@given(steps=STEPS, kept=st.lists(st.booleans(), min_size=10, max_size=10))
def test_what_is_left_of_a_conversation_is_in_its_branches(dialect: str, steps: list[Step], kept: list[bool]) -> None:
    """Turns may not be there yet, or be there no more: nothing that is stored is in no branch."""
    runs, _ = played(steps, dialect)
    left = [(number, records) for number, records in enumerate(runs) if kept[number]]
    thread = document(*(records for _, records in left))
    for number, records in left:
        shown = one_branch(thread, f"run-{number}")["turns"]
        own = [turn for turn in shown if turn["meta:run_id"] == f"run-{number}"]
        assert [turn["meta:turn_id"] for turn in own] == [record["turn_id"] for record in records]
        others = set(versions(thread, f"run-{number}")) - {f"run-{number}"}
        assert not [turn for turn in shown if turn["turn_type"] == "agent" and turn["meta:run_id"] in others]
    if left:
        assert one_branch(thread)["turns"][-1]["meta:run_id"] == f"run-{left[-1][0]}"


@given(steps=STEPS)
def test_a_thread_that_is_sent_again_as_thread_protocol_has_the_same_branches(steps: list[Step]) -> None:
    runs, _ = played(steps, "vercel-ai")
    thread = document(*runs)
    envelope = {
        "v": 1,
        "thread_id": THREAD_ID,
        "run_id": "import",
        "agent_id": "a",
        "dialect": "thread-protocol",
        "seq": 0,
        "ts": START,
        "events": [{"type": f"{turn['turn_type']}-turn", "turn": turn} for turn in thread["turns"]],
        "end": "complete",
    }
    records, refused = assemble(DIALECTS["thread-protocol"], [envelope])
    assert not refused
    again = thread_document(THREAD_ID, records)
    assert [turn.get("meta:branch") for turn in again["turns"]] == [turn.get("meta:branch") for turn in thread["turns"]]
    assert said(one_branch(again)) == said(one_branch(thread))
