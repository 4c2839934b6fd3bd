"""The marks of closed runs: looked up by run, forgotten in the order in which they were added, and packed into pages.

A worker holds tens of thousands of them for a day. As Python objects a mark takes eight small blocks, 525 bytes, and
fragments the heap; packed it takes 150 bytes of a large block.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final

from topics.state import Closed, RunKey

PAGE: Final = 65_536  # bytes, and the step from the places of one page to those of the next
ENTRY: Final = Struct("<Bqqqq")  # state, offset, seq, at, revision; then comes the name
LENGTH: Final = Struct("<I")  # the length of a name in bytes, before the name
REMOVED, INTERRUPTED, COMPLETE = 0, 1, 2  # states
FREE, DELETED = 0, -1  # slots: never used, used before
FEWEST: Final = 64  # slots


class Marks:
    """RunKey -> Closed, in the order of `add`.

    Entries are appended to pages; a place is a page's number times PAGE, plus an offset in it. The slots are a hash
    table with open addressing, at most half full: they hold places, plus one.
    """

    def __init__(self) -> None:
        self._pages: deque[bytearray] = deque([bytearray()])
        self._dropped = 0  # number of pages that were dropped from the front
        self._head = 0  # offset in the first page of the oldest entry
        self._count = 0
        self._slots = array("q", bytes(8 * FEWEST))
        self._used = 0  # slots that are not FREE

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RunKey]:
        """Oldest first."""
        return (self._key(place) for place in self._places())

    def get(self, key: RunKey) -> Closed | None:
        """How a run was closed; None without a mark."""
        slot = self._find(_packed(key))
        return None if slot is None else self._closed(self._slots[slot] - 1)

    def add(self, key: RunKey, closed: Closed) -> None:
        """Add a run's mark as the newest, in place of an older one."""
        name = _packed(key)
        self._remove(name)
        if 2 * self._used >= len(self._slots):
            self._rebuild()
        state = COMPLETE if closed.complete else INTERRUPTED
        entry = ENTRY.pack(state, closed.offset, closed.seq, closed.at, closed.revision) + name
        page = self._pages[-1]
        if page and len(page) + len(entry) > PAGE:
            page = bytearray()
            self._pages.append(page)
        self._put(name, (self._dropped + len(self._pages) - 1) * PAGE + len(page))
        page += entry
        self._count += 1

    def remove(self, key: RunKey) -> None:
        """Remove a run's mark, if there is one."""
        self._remove(_packed(key))
        self._first()

    def _remove(self, name: bytes) -> None:
        slot = self._find(name)
        if slot is not None:
            page, at = self._at(self._slots[slot] - 1)
            page[at] = REMOVED
            self._slots[slot] = DELETED
            self._count -= 1

    def oldest(self) -> tuple[RunKey, Closed] | None:
        """The run whose mark was added first; None where there are no marks."""
        place = self._first()
        return None if place is None else (self._key(place), self._closed(place))

    def by_age(self) -> Marks:
        """The marks in the order in which the runs were closed; the same object where they are in it already."""
        places = list(self._places())
        ages = [self._closed(place).at for place in places]
        if all(one <= other for one, other in pairwise(ages)):
            return self
        marks = Marks()
        for _, place in sorted(zip(ages, places, strict=True)):
            marks.add(self._key(place), self._closed(place))
        return marks

    # ---- pages

    def _first(self) -> int | None:
        """The place of the oldest entry; pages before it are dropped."""
        place = next(self._places(), None)
        if place is None:
            self._pages, self._head = deque([bytearray()]), 0
            return None
        while place // PAGE > self._dropped:
            self._pages.popleft()
            self._dropped += 1
        self._head = place % PAGE
        return place

    def _places(self) -> Iterator[int]:
        at = self._head
        for number, page in enumerate(self._pages, self._dropped):
            while at < len(page):
                if page[at] != REMOVED:
                    yield number * PAGE + at
                at += ENTRY.size
                at += LENGTH.size + LENGTH.unpack_from(page, at)[0]
            at = 0

    def _at(self, place: int) -> tuple[bytearray, int]:
        return self._pages[place // PAGE - self._dropped], place % PAGE

    def _name(self, place: int) -> bytes:
        page, at = self._at(place)
        at += ENTRY.size
        return bytes(page[at : at + LENGTH.size + LENGTH.unpack_from(page, at)[0]])

    def _key(self, place: int) -> RunKey:
        thread_id, _, run_id = self._name(place)[LENGTH.size :].decode().partition("/")
        return thread_id, run_id

    def _closed(self, place: int) -> Closed:
        state, offset, seq, at, revision = ENTRY.unpack_from(*self._at(place))
        return Closed(offset, seq, state == COMPLETE, at, revision)

    # ---- slots

    def _find(self, name: bytes) -> int | None:
        slots, pages = self._slots, self._pages
        last = len(slots) - 1
        slot = hash(name) & last
        while (value := slots[slot]) != FREE:
            if value != DELETED:
                number, at = divmod(value - 1, PAGE)
                if pages[number - self._dropped].startswith(name, at + ENTRY.size):
                    return slot
            slot = (slot + 1) & last
        return None

    def _put(self, name: bytes, place: int) -> None:
        last = len(self._slots) - 1
        slot = hash(name) & last
        while self._slots[slot] not in (FREE, DELETED):
            slot = (slot + 1) & last
        self._used += self._slots[slot] == FREE
        self._slots[slot] = place + 1

    def _rebuild(self) -> None:
        size = FEWEST
        while size < 4 * (self._count + 1):
            size *= 2
        self._slots, self._used = array("q", bytes(8 * size)), 0
        for place in self._places():
            self._put(self._name(place), place)


def _packed(key: RunKey) -> bytes:
    """The name as in the state topic (a thread id has no slash), behind its length: so no name is another's prefix."""
    name = f"{key[0]}/{key[1]}".encode()
    return LENGTH.pack(len(name)) + name
