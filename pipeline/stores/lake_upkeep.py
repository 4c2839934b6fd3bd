"""Small files into large ones, and old snapshots and files that nothing names away. Its calls block."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from pipeline.errors import StoreError
from pipeline.stores import lake_files, lake_merge
from pipeline.stores.lake_merge import Key, Rank
from pipeline.stores.lake_table import ROWS, TRIES, LakeTable, read, tasks

log = logging.getLogger(__name__)

LARGE: Final = 33_554_432  # bytes of a file that stays as it is
UNNAMED: Final = 3600.0  # seconds after which a file that nothing names is not one that is just about to be committed


@dataclass(frozen=True, slots=True)
class Compacted:
    """Files of a table before and after; turns that had rows of several records."""

    before: int
    after: int
    doubles: int


@dataclass(frozen=True, slots=True)
class Expired:
    """Snapshots that went, and files that went with them or that nothing named."""

    snapshots: int
    files: int


def compact(lake: LakeTable) -> Compacted:
    """Join each day's small files, and remove what is there twice: a turn whose beginning another revision has moved by
    days is looked for here alone.
    """
    table = lake.load()
    before = tasks(table)
    best = lake_merge.doubles(read(table, before, ROWS))
    if best:
        lake.rewrite(lambda now: (_with_lower(now, best), best))
    for day in sorted({str(task.file.partition) for task in before}):
        while lake.rewrite(lambda now, day=day: (_small(now, day), {})).rows:  # type: ignore[misc]  # mypy knows no type of a default
            pass
    return Compacted(len(before), len(tasks(lake.load())), len(best))


def _with_lower(table: Table, best: Mapping[Key, Rank]) -> list[FileScanTask]:
    return [task for task in tasks(table) if lake_merge.has_lower(read(table, [task], ROWS), best)]


def _small(table: Table, day: str) -> Sequence[FileScanTask]:
    """As many small files of a day as make a large one; none where there is only one."""
    taken: list[FileScanTask] = []
    for task in tasks(table):
        size = task.file.file_size_in_bytes
        if str(task.file.partition) != day or size >= LARGE // 2:
            continue
        if sum(one.file.file_size_in_bytes for one in taken) + size <= LARGE:
            taken.append(task)
    return taken if len(taken) > 1 else ()


def expire(lake: LakeTable, before: float, *, erased: bool = False) -> Expired:
    """Remove snapshots from before a time, epoch seconds, save the current one and those that somebody has named, and
    all files that none of the others needs. `erased`: the older ones hold what must go, so a named one is a StoreError.
    """
    for _ in range(TRIES):
        table = lake.load()
        named = {ref.snapshot_id: name for name, ref in table.refs().items()}
        old = [one for one in table.snapshots() if one.timestamp_ms < before * 1000 and one.snapshot_id not in named]
        was = _files(table, old, live=False)
        try:
            if old:
                table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
        except (CommitFailedException, FileNotFoundError, ValueError):  # another commit came between
            continue
        break
    else:
        raise StoreError(f"{lake.name}: {TRIES} commits of others came between; try it again", transient=True)
    files = _delete(lake, was)
    kept = sorted(set(named.values()) - {"main"})
    if erased and kept:
        raise StoreError(f"{lake.name}: {', '.join(kept)} may hold what was erased: remove them, and erase once more")
    return Expired(len(old), files)


def _delete(lake: LakeTable, gone: set[str]) -> int:
    """Delete the files in `gone`, and those that lie there for longer than UNNAMED, unless the table names them."""
    table = lake.load()
    named = _files(table, table.snapshots(), live=True) | _metadata(table)
    left = [path for path, at in lake_files.listed(table.location()) if at < time.time() - UNNAMED]
    found = {path for path in {*gone, *left} if path not in named}
    for path in sorted(found):
        with suppress(FileNotFoundError):
            table.io.delete(path)
    return len(found)


def _files(table: Table, snapshots: Sequence[Snapshot], *, live: bool) -> set[str]:
    """All files that these snapshots consist of; and, unless `live`, those that they say are gone."""
    found: set[str] = set()
    manifests: dict[str, list[str]] = {}
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in manifests:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=live)
                manifests[manifest.manifest_path] = [entry.data_file.file_path for entry in entries]
    return found | {*manifests} | {path for paths in manifests.values() for path in paths}


def _metadata(table: Table) -> set[str]:
    return {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
