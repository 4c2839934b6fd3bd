"""The archive that TURNMILL_ARCHIVE names: Parquet objects, or tables of Apache Iceberg. Its interface, without Arrow.

What goes into an archive and comes out of its calls are the terms of `TurnArchive`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final, Protocol

from pipeline.extras import need
from pipeline.settings import LAKE, Settings
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

if TYPE_CHECKING:
    from pipeline.stores.archive.lake import Lake

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


class TurnArchive(Protocol):
    """The interface of an archive for its role, erasures and expiry. Calls raise StoreError, and may be repeated."""

    async def write(
        self,
        topic: str,
        partition: int,
        begin: int,
        end: int,
        entries: Sequence[Entry],
        expired: Expired = never,
        held: Held | None = None,
    ) -> Written:
        """Write a segment durably: offsets from `begin` to before `end`, without expired turns of threads not held."""

    async def delete_threads(self, keys: Collection[ThreadKey]) -> int:
        """Remove threads that are marked as erased; return how many objects contained rows of them."""

    async def expire(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> Removed:
        """Remove rows of these days whose thread is in `before`, and that ended before its time there, in epoch ms."""

    async def counted(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> int:
        """Return how many rows `expire` would remove."""

    async def holding(self, tenant: str) -> int:
        """Return how many objects contain data of a tenant."""

    async def threads_of(self, tenant: str) -> set[ThreadKey]:
        """Return the threads of a tenant."""


def archives_of(settings: Settings, erased: Erased) -> list[TurnArchive]:
    """Return the archives of turns and of feedback; none if none is configured. Raises CallerError as `archive_of`."""
    return [archive_of(settings, erased), feedback_archive_of(settings, erased)] if settings.archive is not None else []


def feedback_archive_of(settings: Settings, erased: Erased) -> TurnArchive:
    """Return the archive of feedback. Raises CallerError if none is configured, or a package for it is missing."""
    need("archive", "TURNMILL_ARCHIVE")
    from pipeline.stores.archive.parquet import FeedbackArchive  # noqa: PLC0415  # as below

    return FeedbackArchive.of(settings, erased)


async def none_erased(threads: Sequence[ThreadKey]) -> set[ThreadKey]:
    """Return no thread: what adds no turns to an archive need not ask which threads were erased."""
    return set()


def archive_of(settings: Settings, erased: Erased = none_erased) -> TurnArchive:
    """Return the archive. Raises CallerError if none is configured, or a package that it needs is missing."""
    if settings.archive is not None and settings.archive.startswith(LAKE):
        return lake_of(settings, erased)
    need("archive", "TURNMILL_ARCHIVE")
    from pipeline.stores.archive.parquet import Archive  # noqa: PLC0415  # without an archive, Arrow need not be installed

    return Archive.of(settings, erased)


def lake_of(settings: Settings, erased: Erased = none_erased) -> Lake:
    """Return the archive if it consists of Iceberg tables. Raises CallerError otherwise."""
    if settings.archive is None or not settings.archive.startswith(LAKE):
        raise CallerError(f"TURNMILL_ARCHIVE is no table: set it to {LAKE}s3://bucket/prefix, or {LAKE}file:///folder")
    need("archive", "TURNMILL_ARCHIVE")
    from pipeline.stores.archive.lake import Lake  # noqa: PLC0415  # as above; pyiceberg neither
    from pipeline.stores.archive.lake_catalog import LakeLocation  # noqa: PLC0415  # as above

    return Lake(LakeLocation.of(settings), erased, settings.price_list)
