"""The marks of closed runs: looked up by run, removed in the order in which they were added, and packed into pages.

A worker holds tens of thousands of them for a day. As Python objects a mark takes eight small blocks, 525 bytes, and
fragments the heap; packed it takes 160 bytes of a large block.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct
from typing import Final

from topics.state import Closed, RunKey
from turnmill.shares import Shares

# Not Final, since tests set it: compiled code would not read it again.
PAGE_BYTES = 65_536  # also the distance between the first places of two pages
ENTRY: Final = Struct("<Bqqqqq")  # state, position of the same tenant's next mark, offset, seq, at, revision
PLACE: Final = Struct("<q")  # the second field of an entry
LENGTH: Final = Struct("<I")  # in bytes, of a text: an entry is followed by the name of its run and by its tenant
NOBODY: Final = b"-"  # stands for no tenant
NAMED: Final = b"="  # precedes a tenant
UNNAMED: Final = LENGTH.pack(len(NOBODY)) + NOBODY  # follows the name of a run without a tenant
REMOVED, INTERRUPTED, COMPLETE, CUT = 0, 1, 2, 3  # states
FREE, DELETED = 0, -1  # slots: never used, used before
MIN_SLOTS: Final = 64  # slots
SMALL_MARK_BYTES: Final = 256  # most marks need no more


class Marks:
    """RunKey -> Closed, in the order of `add`.

    `shares`: the size of each tenant's marks in units of SMALL_MARK_BYTES, so that a limit on their number bounds
    memory, too: a mark with a long name counts as several.

    Entries are appended to pages; a position is a page's number times PAGE_BYTES, plus an offset in it. The slots are a
    hash table with open addressing, at most half full, of places plus one. The hash is that of the run's name without
    its tenant, so that a mark can also be looked up by the key of its entry on the state topic.
    """

    def __init__(self) -> None:
        self._pages: deque[bytearray] = deque([bytearray()])
        self._dropped = 0  # number of pages that were dropped from the front
        self._head = 0  # offset in the first page of the oldest entry
        self._count = 0
        self._bytes = 0  # of all entries except removed ones
        self._ends: dict[str | None, list[int]] = {}  # by tenant: the places of its oldest and of its newest mark
        self.shares = Shares()
        self._slots = array("q", bytes(8 * MIN_SLOTS))
        self._used = 0  # slots that are not FREE

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RunKey]:
        """Yield the runs, oldest mark first."""
        return (self._key(position) for position in self._places())

    def get(self, key: RunKey) -> Closed | None:
        """Return how a run was closed; None if it has no mark."""
        slot = self._find(*_packed(key))
        return None if slot is None else self._closed(self._slots[slot] - 1)

    def add(self, key: RunKey, closed: Closed) -> None:
        """Add a run's mark as the newest, in place of an older one."""
        name, packed = _packed(key)
        self._remove(self._find(name, packed))
        if 2 * self._used >= len(self._slots):
            self._rebuild()
        state = CUT if closed.cut else COMPLETE if closed.complete else INTERRUPTED
        entry = ENTRY.pack(state, 0, closed.offset, closed.seq, closed.at, closed.revision) + packed
        page = self._pages[-1]
        if page and len(page) + len(entry) > PAGE_BYTES:
            page = bytearray()
            self._pages.append(page)
        position = (self._dropped + len(self._pages) - 1) * PAGE_BYTES + len(page)
        self._put(name, position)
        page += entry
        self._bytes += len(entry)
        self._count += 1
        self.shares.add(key.tenant, _units(len(entry)))
        ends = self._ends.get(key.tenant)
        if ends is None:
            self._ends[key.tenant] = [position, position]
        else:
            before, at = self._at(ends[1])
            PLACE.pack_into(before, at + 1, position)
            ends[1] = position

    def remove(self, key: RunKey) -> None:
        """Remove a run's mark, if there is one."""
        self._remove(self._find(*_packed(key)))
        self._first()

    def remove_entry(self, thread_id: str, run_id: str, offset: int) -> None:
        """Remove the mark with this entry on the state topic, of any tenant: an offset belongs to one run."""
        name = _name(thread_id, run_id)
        self._remove(self._find(name, name, offset))
        self._first()

    def _remove(self, slot: int | None) -> None:
        if slot is None:
            return
        position = self._slots[slot] - 1
        page, at = self._at(position)
        tenant, behind = _tenant(page, _behind(page, at + ENTRY.size))
        page[at] = REMOVED
        self._slots[slot] = DELETED
        self._bytes -= behind - at
        self._count -= 1
        self.shares.add(tenant, -_units(behind - at))
        if self._ends[tenant][0] == position:
            self._advance(tenant)

    def _advance(self, tenant: str | None) -> None:
        """Go on to a tenant's next mark, since its oldest was removed."""
        position, last = self._ends[tenant]
        while (at := self._at(position))[0][at[1]] == REMOVED:
            if position == last:
                del self._ends[tenant]
                return
            (position,) = PLACE.unpack_from(at[0], at[1] + 1)
        self._ends[tenant][0] = position

    def of_most(self) -> RunKey:
        """Return the run of the oldest mark of the tenant with the most marks (see `Shares`). There must be a mark."""
        return self._key(self._ends[self.shares.most()][0])

    def oldest(self) -> tuple[RunKey, Closed] | None:
        """Return the run whose mark was added first, and its mark; None if there are no marks."""
        position = self._first()
        return None if position is None else (self._key(position), self._closed(position))

    def by_age(self) -> Marks:
        """Return the marks in the order in which the runs were closed; the same object if they are sorted already."""
        places = list(self._places())
        ages = [self._closed(position).at for position in places]
        if all(age <= other for age, other in pairwise(ages)):
            return self
        return self._copied(position for _, position in sorted(zip(ages, places, strict=True)))

    def packed(self) -> Marks:
        """Return the marks in their order, compacted; the same object if less than half of it is removed marks."""
        return self if len(self._pages) * PAGE_BYTES <= 2 * (self._bytes + PAGE_BYTES) else self._copied(self._places())

    def _copied(self, places: Iterable[int]) -> Marks:
        marks = Marks()
        for position in places:
            marks.add(self._key(position), self._closed(position))
        return marks

    # ---- pages

    def _first(self) -> int | None:
        """Return the position of the oldest entry; pages before it are dropped."""
        position = next(self._places(), None)
        if position is None:
            self._pages, self._head = deque([bytearray()]), 0
            return None
        while position // PAGE_BYTES > self._dropped:
            self._pages.popleft()
            self._dropped += 1
        self._head = position % PAGE_BYTES
        return position

    def _places(self) -> Iterator[int]:
        at = self._head
        for number, page in enumerate(self._pages, self._dropped):
            while at < len(page):
                if page[at] != REMOVED:
                    yield number * PAGE_BYTES + at
                at = _behind(page, _behind(page, at + ENTRY.size))
            at = 0

    def _at(self, position: int) -> tuple[bytearray, int]:
        return self._pages[position // PAGE_BYTES - self._dropped], position % PAGE_BYTES

    def _name(self, position: int) -> bytes:
        page, at = self._at(position)
        at += ENTRY.size
        return bytes(page[at : _behind(page, at)])

    def _key(self, position: int) -> RunKey:
        page, at = self._at(position)
        at += ENTRY.size
        behind = _behind(page, at)
        thread_id, _, run_id = page[at + LENGTH.size : behind].decode().partition("/")
        return RunKey(_tenant(page, behind)[0], thread_id, run_id)

    def _closed(self, position: int) -> Closed:
        state, _, offset, seq, at, revision = ENTRY.unpack_from(*self._at(position))
        return Closed(offset, seq, state == COMPLETE, at, revision, state == CUT)

    # ---- slots

    def _find(self, name: bytes, prefix: bytes, offset: int | None = None) -> int | None:
        """Return the slot of the mark whose name has this prefix.

        The prefix is the name with its tenant, or the name alone; in this case `offset` identifies the mark.
        """
        slots = self._slots
        last = len(slots) - 1
        slot = hash(name) & last
        while (value := slots[slot]) != FREE:
            if value != DELETED:
                page, at = self._at(value - 1)
                if page.startswith(prefix, at + ENTRY.size) and offset in (None, self._closed(value - 1).offset):
                    return slot
            slot = (slot + 1) & last
        return None

    def _put(self, name: bytes, position: int) -> None:
        last = len(self._slots) - 1
        slot = hash(name) & last
        while self._slots[slot] not in (FREE, DELETED):
            slot = (slot + 1) & last
        self._used += self._slots[slot] == FREE
        self._slots[slot] = position + 1

    def _rebuild(self) -> None:
        size = MIN_SLOTS
        while size < 4 * (self._count + 1):
            size *= 2
        before, self._slots, self._used = self._slots, array("q", bytes(8 * size)), 0
        for value in before:
            if value not in (FREE, DELETED):
                self._put(self._name(value - 1), value - 1)


def _units(size: int) -> int:
    return -(-size // SMALL_MARK_BYTES)


def _packed(key: RunKey) -> tuple[bytes, bytes]:
    """Return the name of a run, and the same with its tenant.

    Both begin with their lengths, so that none is a prefix of another.
    """
    name = _name(key.thread_id, key.run_id)
    if key.tenant is None:
        return name, name + UNNAMED
    tenant = NAMED + key.tenant.encode()
    return name, b"".join((name, LENGTH.pack(len(tenant)), tenant))


def _name(thread_id: str, run_id: str) -> bytes:
    """Return the name as in the keys of the state topic; a thread id has no slash."""
    name = f"{thread_id}/{run_id}".encode()
    return LENGTH.pack(len(name)) + name


def _tenant(page: bytearray, at: int) -> tuple[str | None, int]:
    """Return the tenant whose text begins at `at`, and the offset after it."""
    behind = _behind(page, at)
    text = page[at + LENGTH.size : behind]
    return None if text == NOBODY else text.removeprefix(NAMED).decode(), behind


def _behind(page: bytearray, at: int) -> int:
    """Return the offset after the text that begins at `at` with its length."""
    return int(at + LENGTH.size + LENGTH.unpack_from(page, at)[0])
