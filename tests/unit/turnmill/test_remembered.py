"""A memory takes at most its bytes, whatever they are, and gives each scope its share."""

import gc
import threading
from dataclasses import dataclass
from typing import Any, Final

import pytest

from turnmill.pools import LEFT_FREE, OLDEST_OF_MOST, memory
from turnmill.remembered import ENTRY_BYTES, SCOPE_BYTES, Remembered, size_of

FORGETS: Final = memory("forgets", 1, "is forgotten")
REFUSES: Final = memory("refuses", 1, "is refused", LEFT_FREE)


@dataclass(slots=True)
class Thing:
    name: str
    parts: list[Any]


def test_a_size_is_of_all_that_a_value_contains() -> None:
    small, text = size_of(Thing("a", [])), "x" * 10_000
    assert size_of(Thing("a", [text])) > small + 10_000
    assert size_of({"a": {"b": [(text, {text})]}}) > 10_000
    assert size_of([text] * 5) < 11_000, "what it contains twice is there once"
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert size_of(nested) > 100_000 * 56, "however deep it is nested"
    around: list[Any] = []
    around.append(around)
    assert size_of(around) < 1_000


def test_the_bytes_are_those_of_what_is_there_now() -> None:
    known = Remembered[str, str](FORGETS)
    known.put("acme", "a", "x" * 100)
    known.put("acme", "b", "x" * 100)
    total = known.shares.total
    known.put("acme", "a", "x" * 1_100)
    assert known.shares.total == total + 1_000
    assert [key for key, _ in known.of("acme")] == ["a", "b"], "a value in the place of another keeps its turn"
    assert (len(known), known.count("acme"), known.scopes) == (2, 2, ["acme"])
    known.pop("acme", "a")
    known.pop("acme", "a")
    known.pop("acme", "b")
    assert (len(known), known.shares.total, known.scopes) == (0, 0, [])


def test_a_large_value_makes_as_many_forgotten_as_it_takes_bytes() -> None:
    known = Remembered[int, bytes](FORGETS, size=100_000)
    for number in range(40):
        known.put("acme", number, b"x" * 1_000)
    forgotten = known.put("acme", 40, b"x" * 70_000)
    assert len(forgotten) > 15
    assert known.shares.total <= 100_000
    assert known.get("acme", 40) is not None
    assert known.get("acme", 0) is None
    known.put("acme", 41, b"x" * 200_000)
    assert (len(known), known.shares.total) == (0, 0), "what is larger than the memory is not remembered"


def test_what_is_used_outlasts_what_is_not() -> None:
    known = Remembered[int, int](FORGETS, lambda _: 1_000, size=SCOPE_BYTES + 5 * (ENTRY_BYTES + 1_030))
    for number in range(5):
        known.put(None, number, number)
    known.touch(None, 0)
    assert known.put(None, 5, 5) == [1]


def test_many_scopes_have_bytes_too() -> None:
    known = Remembered[int, int](FORGETS, size=100_000)
    for number in range(10_000):
        known.put(f"tenant {number}", number, number)
    assert len(known.scopes) < 100_000 // SCOPE_BYTES
    assert known.shares.total <= 100_000


def test_where_nothing_is_forgotten_who_asks_first_stays_within_the_bytes() -> None:
    known = Remembered[int, int](REFUSES, lambda _: 1_000, size=100_000)
    given = 0
    while known.fits("evil", given, given):
        assert known.put("evil", given, given) == []
        given += 1
    assert 40 < given < 70, "a quarter and more stays free"
    assert known.fits("acme", 0, 0)
    while known.has_bytes(given, given):
        known.put("evil", given, given)
        given += 1
    assert known.shares.total <= 100_000


def test_the_oldest_that_are_over_go_together() -> None:
    known = Remembered[int, int](FORGETS)
    for number in range(10):
        known.put("ab"[number % 2], number, number)
    assert sorted(known.shed(lambda number: number < 5)) == [0, 1, 2, 3, 4]
    assert sorted(known) == [5, 6, 7, 8, 9]


def test_as_a_queue_it_serves_each_scope_in_turn() -> None:
    known = Remembered[int, str](REFUSES)
    for number in range(4):
        known.put("evil", number, f"evil {number}")
    known.put("acme", 9, "acme")
    served = [known.first() for _ in range(6)]
    assert served == ["evil 0", "acme", "evil 1", "evil 2", "evil 3", None]


def test_several_threads_may_use_it() -> None:
    known = Remembered[int, bytes](FORGETS, size=200_000)

    def use(number: int) -> None:
        for turn in range(3_000):
            known.put(f"tenant {turn % 7}", turn * 10 + number, b"x" * (turn % 500))
            known.pop(f"tenant {turn % 5}", (turn - 20) * 10 + number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(known) == len([*known])
    while known.first() is not None:
        pass
    assert (len(known), known.shares.total) == (0, 0)


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_memory_takes_no_more_than_it_says(count: int) -> None:
    known = Remembered[str, dict[str, Any]](FORGETS, size=100_000_000)
    empty = size_of(known)
    for number in range(count):
        known.put(f"tenant {number % 10}", f"key {number}", {"name": f"{number}" * 10, "parts": [number] * 5})
    gc.collect()
    assert size_of(known) - empty <= known.shares.total + 2_000
    assert known.pool.share == OLDEST_OF_MOST
