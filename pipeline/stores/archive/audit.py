"""The audit log in the archive: an object of JSON lines for each hour, ROOT/audit/day=2026-01-20/2026-01-20T09.jsonl.

The object of an hour is rewritten while its entries may still grow, and deleted when its last entry's retention ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from pipeline.observability.audit import ERASURES, Entry
from pipeline.settings import LAKE, Settings
from pipeline.stores.content.objects import NotThere, Objects

HOUR_MS: Final = 3_600_000
NAME: Final = "%Y-%m-%dT%H"
MEDIA_TYPE: Final = "application/x-ndjson"


class AuditArchive:
    """The objects below `root`/audit. Every method raises StoreError."""

    def __init__(self, root: str) -> None:
        self.root = f"{root}/audit"
        self.objects = Objects()

    @classmethod
    def of(cls, settings: Settings) -> AuditArchive | None:
        """Return the archive in TURNMILL_ARCHIVE, beside its objects or tables; None if there is no archive."""
        if settings.archive is None:
            return None
        return cls(settings.archive.removeprefix(LAKE).rstrip("/"))

    async def write(self, hour: int, entries: Callable[[int, int], Awaitable[Sequence[Entry]]]) -> None:
        """Write the entries of an hour (epoch ms), from `entries(since, until)`; again if they changed meanwhile."""
        # An erasure first deletes entries, then looks for objects: it finds this object, or we read the entries again.
        name, before = datetime.fromtimestamp(hour / 1000, UTC).strftime(NAME), None
        while (now := await entries(hour, hour + HOUR_MS)) != before:
            before = now
            await self._write(
                f"{self.root}/day={name[:10]}/{name}.jsonl", [orjson.dumps(asdict(entry)) for entry in now]
            )

    async def newest(self) -> int:
        """Return the last hour that has an object, in epoch ms; 0 where none has."""
        return max([_hour(uri) async for uri in self._names()], default=0)

    async def expire(self, before: int) -> None:
        """Delete the objects of hours that were over before then (epoch ms)."""
        for uri in [uri async for uri in self._names()]:
            if _hour(uri) + HOUR_MS <= before:
                await self.objects.delete(uri)

    async def forget(self, tenant: str) -> None:
        """Remove the entries about a tenant, "" for none, except those of erasures."""
        async for uri, lines in self._lines():
            kept = [line for line in lines if not _about(line, tenant)]
            if len(kept) < len(lines):
                await self._write(uri, kept)

    async def holding(self, tenant: str) -> int:
        """Return how many objects contain entries that `forget` removes."""
        return len([uri async for uri, lines in self._lines() if any(_about(line, tenant) for line in lines)])

    async def _names(self) -> AsyncIterator[str]:
        async for uri in self.objects.names_under(self.root):
            if uri.endswith(".jsonl"):
                yield uri

    async def _lines(self) -> AsyncIterator[tuple[str, list[bytes]]]:
        for uri in [uri async for uri in self._names()]:
            with suppress(NotThere):  # another process has deleted it meanwhile
                yield uri, (await self.objects.read(uri)).splitlines()

    async def _write(self, uri: str, lines: Sequence[bytes]) -> None:
        if lines:
            await self.objects.write(uri, b"\n".join(lines) + b"\n", MEDIA_TYPE)
        else:
            await self.objects.delete(uri)


def _hour(uri: str) -> int:
    name = uri.rpartition("/")[2].removesuffix(".jsonl")
    return int(datetime.strptime(name, NAME).replace(tzinfo=UTC).timestamp() * 1000)


def _about(line: bytes, tenant: str) -> bool:
    entry: dict[str, Any] = orjson.loads(line)
    return entry["tenant"] == tenant and entry["action"] not in ERASURES
