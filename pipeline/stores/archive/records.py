"""The values that go into an archive and come out of its calls: the terms of `TurnArchive`, without Arrow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from topics.thread_key import ThreadKey

EPOCH: Final = date(1970, 1, 1)  # the day of turns without a time

Erased = Callable[[Sequence[ThreadKey]], Awaitable[set[ThreadKey]]]  # threads -> those of them that were erased
Expired = Callable[[ThreadKey, int], bool]  # thread, end of a record of it -> whether that record has expired
Held = Callable[[Collection[ThreadKey]], Awaitable[set[ThreadKey]]]  # threads -> those of them that are held


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the turns topic; `at`: the broker's time, epoch ms."""

    offset: int
    at: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that is no turn record, and why."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class Written:
    """A written segment: rows and bytes of its objects, refused records, and the number of expired turns left out."""

    rows: int
    bytes: int
    refused: tuple[Refusal, ...]
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Removed:
    """The number of removed rows of expired threads, the objects that contained them, and these threads."""

    rows: int
    objects: int
    threads: frozenset[ThreadKey]


def never(_thread: ThreadKey, _ended_at: int) -> bool:
    """Return False: nothing expires."""
    return False
