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


def test_what_comes_and_goes_takes_no_more_memory_in_the_end() -> None:
    marks = Marks()
    for number in range(50_000):
        marks.add(("6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}"), Closed(number, 150, True, number))
        if len(marks) > 1_000 and (oldest := marks.oldest()) is not None:
            marks.remove(oldest[0])
    held = sum(map(sys.getsizeof, marks._pages)) + sys.getsizeof(marks._slots)
    assert held < 400_000
