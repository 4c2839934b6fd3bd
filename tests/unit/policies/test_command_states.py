"""What became of a command: never more than somebody has said, in whatever order and however often it is heard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.command_states import (
    ACKNOWLEDGE_TIMEOUT_MS,
    FINAL,
    CommandStatus,
    acknowledged,
    published,
    requested,
    run_ended,
    waited,
)

NEW = requested(1_000)
MOVES = st.one_of(
    st.tuples(st.just(acknowledged), st.sampled_from(["acknowledged", "completed", "refused", "nonsense", None])),
    st.tuples(st.just(run_ended), st.sampled_from(["complete", "aborted", "error"])),
    st.tuples(st.just(published), st.sampled_from(["ended", "completed", "unanswered", "refused", "acknowledged", 7])),
    st.tuples(st.just(waited), st.just("")),
)


def moved(before: CommandStatus, move: Any, said: Any, at: int) -> CommandStatus:
    found: CommandStatus = move(before, at) if move is waited else move(before, said, at)
    return found


def test_a_run_that_heard_has_ended() -> None:
    heard = acknowledged(NEW, "acknowledged", 2_000)
    assert heard == CommandStatus("acknowledged", 2_000)
    assert run_ended(heard, "aborted", 3_000) == CommandStatus("ended", 3_000, "aborted")


def test_a_run_that_was_over_first_has_won_the_race() -> None:
    assert run_ended(NEW, "complete", 2_000) == CommandStatus("completed", 2_000, "complete")


def test_nobody_answers_until_somebody_does() -> None:
    assert waited(NEW, 1_000 + ACKNOWLEDGE_TIMEOUT_MS - 1) == NEW
    silent = waited(NEW, 1_000 + ACKNOWLEDGE_TIMEOUT_MS)
    assert silent.state == "unanswered"
    assert acknowledged(silent, "acknowledged", 99_000).state == "acknowledged"
    heard = acknowledged(NEW, "acknowledged", 2_000)
    assert waited(heard, 10**12) == heard
    assert published(heard, "unanswered", 10**12) == heard


def test_a_refusal_has_its_reason() -> None:
    assert acknowledged(NEW, "refused", 2_000, "not for me") == CommandStatus("refused", 2_000, "not for me")


@given(st.lists(MOVES, max_size=12))
def test_a_final_state_stays_and_none_is_stopped_unheard(moves: list[Any]) -> None:
    standing, heard = NEW, False
    for at, (move, said) in enumerate(moves, 2_000):
        before, standing = standing, moved(standing, move, said, at)
        assert before.state not in FINAL or standing == before
        assert moved(standing, move, said, at) == standing or standing.state == "acknowledged", "the same again"
        heard = (
            heard
            or (move is acknowledged and said == "acknowledged")
            or (move is published and said in ("acknowledged", "ended"))
        )
        assert standing.state != "ended" or heard


@pytest.mark.parametrize("state", ["requested", "nonsense", None, 7])
def test_what_is_no_state_changes_nothing(state: object) -> None:
    assert acknowledged(NEW, state, 2_000) == published(NEW, state, 2_000) == NEW
