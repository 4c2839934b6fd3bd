"""The packed marks of closed runs, against a dictionary."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly import marks as marks_module
from pipeline.assembly.marks import Marks
from topics.state import Closed, RunKey

KEYS: Final = [(f"thread-{number % 5}", f"run/{number}" + "ü" * number) for number in range(40)]
NUMBERS: Final = st.integers(-1, 2**62)
CLOSED: Final = st.builds(Closed, NUMBERS, NUMBERS, st.booleans(), NUMBERS, NUMBERS)
ADD: Final = st.tuples(st.just("add"), st.sampled_from(KEYS), CLOSED)
REMOVE: Final = st.tuples(st.sampled_from(["remove", "oldest"]), st.sampled_from(KEYS), st.none())


@given(st.lists(ADD | REMOVE, max_size=300), st.sampled_from([60, 200, 65_536]))
def test_they_are_a_dictionary_in_order(steps: list[tuple[str, RunKey, Closed | None]], page: int) -> None:
    right: OrderedDict[RunKey, Closed] = OrderedDict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks_module, "PAGE", page)
        marks = Marks()
        for what, key, closed in steps:
            if what == "add":
                assert closed is not None
                marks.add(key, closed)
                right[key] = closed
                right.move_to_end(key)
            elif what == "remove":
                marks.remove(key)
                right.pop(key, None)
            else:
                found = marks.oldest()
                assert found == next(iter(right.items()), None)
                if found is not None:
                    marks.remove(found[0])
                    del right[found[0]]
            assert (len(marks), marks.get(key)) == (len(right), right.get(key))
        assert list(marks) == list(right)
        assert [marks.get(key) for key in KEYS] == [right.get(key) for key in KEYS]


@given(st.lists(ADD | REMOVE, max_size=60))
def test_by_age(steps: list[tuple[str, RunKey, Closed | None]]) -> None:
    marks = Marks()
    for _, key, closed in steps:
        marks.remove(key) if closed is None else marks.add(key, closed)
    right = {key: marks.get(key) for key in marks}
    sorted_marks = marks.by_age()
    assert {key: sorted_marks.get(key) for key in sorted_marks} == right
    ages = [closed.at for key in sorted_marks if (closed := sorted_marks.get(key)) is not None]
    assert ages == sorted(ages)
    assert sorted_marks.by_age() is sorted_marks


def test_what_comes_and_goes_takes_no_more_memory_in_the_end() -> None:
    marks = Marks()
    for number in range(50_000):
        marks.add(("6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}"), Closed(number, 150, True, number))
        if len(marks) > 1_000 and (oldest := marks.oldest()) is not None:
            marks.remove(oldest[0])
    assert held_by(marks) < 400_000


def test_what_is_removed_in_any_case_is_given_up() -> None:
    marks = Marks()
    for number in range(50_000):
        run = ("6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}")
        marks.add(run, Closed(number, 150, True, number))
        marks.remove(run)
    assert held_by(marks) < 10_000


def held_by(marks: Marks) -> int:
    """Bytes."""
    return sum(map(sys.getsizeof, marks._pages)) + sys.getsizeof(marks._slots)
