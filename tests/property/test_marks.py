"""The packed marks of closed runs, against a dictionary."""

import sys
from collections import Counter, OrderedDict
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly import marks as marks_module
from pipeline.assembly.marks import Marks
from topics.state import Closed, RunKey

KEYS: Final = [
    RunKey(tenant, f"thread-{number % 5}", f"run/{number}" + "ü" * number)
    for number in range(15)
    for tenant in (None, "acme", "-")
]
NUMBERS: Final = st.integers(-1, 2**62)
# A run that was cut off is not complete.
CLOSED: Final = st.builds(Closed, NUMBERS, NUMBERS, st.booleans(), NUMBERS, NUMBERS, st.booleans()).filter(
    lambda closed: not (closed.complete and closed.cut)
)
ADD: Final = st.tuples(st.just("add"), st.sampled_from(KEYS), CLOSED)
REMOVE: Final = st.tuples(st.sampled_from(["remove", "oldest", "of_most", "packed"]), st.sampled_from(KEYS), st.none())


@given(st.lists(ADD | REMOVE, max_size=300), st.sampled_from([60, 200, 65_536]))
def test_they_are_a_dictionary_in_order(steps: list[tuple[str, RunKey, Closed | None]], page: int) -> None:
    right: OrderedDict[RunKey, Closed] = OrderedDict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks_module, "PAGE_BYTES", page)
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
            elif what == "packed":
                marks = marks.packed()
            elif what == "of_most" and right:
                found_key = marks.of_most()
                held = Counter(run.tenant for run in right)
                assert 2 * held[found_key.tenant] > max(held.values())
                assert found_key == next(run for run in right if run.tenant == found_key.tenant)
                marks.remove(found_key)
                del right[found_key]
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
        marks.add(
            RunKey(None, "6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}"), Closed(number, 150, True, number)
        )
        if len(marks) > 1_000 and (oldest := marks.oldest()) is not None:
            marks.remove(oldest[0])
    assert held_by(marks) < 400_000


def test_what_is_removed_in_any_case_is_given_up() -> None:
    marks = Marks()
    for number in range(50_000):
        run = RunKey(None, "6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}")
        marks.add(run, Closed(number, 150, True, number))
        marks.remove(run)
    assert held_by(marks) < 10_000


def test_what_is_removed_in_the_middle_takes_no_more_memory_in_the_end() -> None:
    """One tenant's marks stay while another's come and go behind them."""
    marks = Marks()
    for number in range(50_000):
        tenant = "quiet" if number % 200 == 0 else "busy"
        marks.add(RunKey(tenant, "6f1d6f5e-6f0a-4c0b-9d51-000000000000", f"run-{number}"), Closed(number, 1, True, 1))
        if len(marks) > 1_000:
            marks.remove(marks.of_most())
            marks = marks.packed()
    assert sum(run.tenant == "quiet" for run in marks) == 250
    assert held_by(marks) < 500_000


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 5)), max_size=60), st.sampled_from(KEYS), st.integers(0, 5)
)
def test_a_mark_is_found_by_what_its_entry_is_called(
    added: list[tuple[RunKey, int]], wanted: RunKey, number: int
) -> None:
    """An offset belongs to one run."""
    marks = Marks()
    right: dict[RunKey, int] = {}
    for key, its_number in added:
        right[key] = 10 * KEYS.index(key) + its_number
        marks.add(key, Closed(right[key], 1, complete=True, at=1))
    entry = 10 * KEYS.index(wanted) + number
    marks.remove_entry(wanted.thread_id, wanted.run_id, entry)
    assert {*marks} == {key for key, offset in right.items() if offset != entry}


def held_by(marks: Marks) -> int:
    """Bytes."""
    return sum(map(sys.getsizeof, marks._pages)) + sys.getsizeof(marks._slots)
