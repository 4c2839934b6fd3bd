"""Conditions on feedback, and the turns that they choose."""

from typing import Any

import pytest

from pipeline.turns.judged import Condition, chosen, condition, score

TURNS: list[dict[str, Any]] = [{"meta:turn_id": f"t{n}", "meta:run_id": f"r{n}"} for n in range(3)]


def said(name: str, value: Any, **about: Any) -> Any:
    return {"v": 1, "id": "i", "thread_id": "t", "at": 1, "name": name, "value": value, **about}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("score>=0.5", Condition("score", ">=", 0.5)),
        ("score < 3", Condition("score", "<", 3)),
        ("helpful=true", Condition("helpful", "=", True)),
        ("label!=bad", Condition("label", "!=", "bad")),
        ('label="1"', Condition("label", "=", "1")),
        ("a b>x=y", Condition("a b", ">", "x=y")),
    ],
)
def test_a_condition_is_read(text: str, found: Condition) -> None:
    assert condition(text) == found


@pytest.mark.parametrize("text", ["score", ">=1", "score>=", "score=[1]", "score=null", "score=1e999", "a\0=1", ""])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|is a number|is no number|1 to"):
        condition(text)


def test_kinds_are_not_compared_with_each_other() -> None:
    assert condition("score>=1").holds(said("score", 1))
    assert condition("score>=1").holds(said("score", True))
    assert not condition("score>=1").holds(said("score", "9"))
    assert not condition("score!=1").holds(said("score", "text"))
    assert not condition("score>=1").holds(said("other", 9))
    assert condition("label>=a").holds(said("label", "b"))


def test_feedback_chooses_its_turn_its_run_or_all_turns() -> None:
    wanted = condition("good=true")
    for about, found in (({}, [0, 1, 2]), ({"turn_id": "t1"}, [1]), ({"run_id": "r2"}, [2]), ({"turn_id": "t9"}, [])):
        assert chosen(TURNS, [said("good", True, **about), said("good", False)], wanted) == [TURNS[n] for n in found]


def test_a_score_is_of_the_turn_itself() -> None:
    given = [said("s", 1, turn_id="t0"), said("s", 0, run_id="r0"), said("s", 9), said("other", 4, turn_id="t0")]
    given += [said("s", "text", turn_id="t0"), said("s", 5, turn_id="t1")]
    assert score(TURNS[0], given, "s") == 0.5
    assert score(TURNS[0], given, None) == pytest.approx(5 / 3)
    assert score(TURNS[2], given, "s") is None
