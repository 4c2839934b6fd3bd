import pytest

from pipeline.turns.thread_document import EARLIER, UnknownTurn, last_turns

DOCUMENT = {"thread_id": "t", "turns": [{"meta:turn_id": str(number)} for number in range(10)]}


def shown(most: int | None = None, since: str | None = None) -> tuple[list[int], int]:
    found = last_turns(DOCUMENT, most, since)
    return [int(turn["meta:turn_id"]) for turn in found["turns"]], found.get(EARLIER, 0)


def test_the_end_of_a_thread() -> None:
    assert shown() == (list(range(10)), 0)
    assert shown(3) == ([7, 8, 9], 7)
    assert shown(10) == shown(99) == (list(range(10)), 0)


def test_from_a_turn_on_with_what_it_answers() -> None:
    assert shown(since="6") == ([4, 5, 6, 7, 8, 9], 4)
    assert shown(3, "9") == ([7, 8, 9], 7)
    assert shown(1, "3") == (list(range(1, 10)), 1)
    assert shown(3, "0") == (list(range(10)), 0)
    with pytest.raises(UnknownTurn, match="'other'"):
        shown(3, "other")
