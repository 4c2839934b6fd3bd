"""Upkeep of a lake's table: joins small files, removes old snapshots and unreferenced files. Its calls block."""

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from pipeline.stores.archive import lake_files, lake_merge
from pipeline.stores.archive.lake_catalog import MAX_COMMITS
from pipeline.stores.archive.lake_merge import Key, Rank
from pipeline.stores.archive.lake_read import ROWS, on_days, read, tasks
from pipeline.stores.archive.lake_table import ERASED, LakeTable, groups
from pipeline.stores.database.errors import StoreError

log = logging.getLogger(__name__)

LARGE_FILE_BYTES: Final = 33_554_432  # from which on a file is not joined
MIN_JOINED_FILES: Final = 16  # small files of a day and of similar size, from which on the role joins them
SIZE_BITS: Final = 5  # bits by which the sizes of such files may differ
RECENT: Final = 3600.0  # seconds for which a query may read an old snapshot, and a new file may await its commit
FOREIGN: Final = 72 * 3600.0  # seconds in which another engine may still commit a file that it has written
OWN_FILE: Final = re.compile(r"[0-9a-f]{32}\.parquet|.*\.(?:avro|metadata\.json)")
HASHES_BATCH: Final = 8_000_000  # rows whose hashes are compared in a pass
MAX_SNAPSHOTS: Final = 200  # that the role keeps; when there are twice as many, it removes the rest together


@dataclass(frozen=True, slots=True)
class Compacted:
    """The number of a table's files before and after, and of turns that had rows of several records."""

    before: int
    after: int
    doubles: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The number of removed snapshots, and of files removed with them or referenced by none."""

    snapshots: int
    files: int


def compact(lake: LakeTable) -> Compacted:
    """Join each day's small files, and remove duplicates, also of turns whose revisions began days apart."""
    table = lake.load()
    before = len(tasks(table))
    if best := doubles(table):
        for task in tasks(table):
            if lake_merge.has_lower(read(table, [task], ROWS), best):
                lake.rewrite([task], partial(lake_merge.without_lower, best=best))
    for small in _by_day(tasks(lake.load())).values():
        _join(lake, small)
    return Compacted(before, len(tasks(lake.load())), len(best))


def tidy(lake: LakeTable, days: Collection[date | None]) -> None:
    """Join these days' files of similar size, if many, and remove the oldest snapshots, if many."""
    table = lake.load()
    for small in _by_day(tasks(table, on_days(days))).values():
        sizes: dict[int, list[FileScanTask]] = {}
        for task in small:
            sizes.setdefault(_size(task).bit_length() // SIZE_BITS, []).append(task)
        for alike in sizes.values():
            if len(alike) >= MIN_JOINED_FILES:
                _join(lake, alike)
    times = sorted((snapshot.timestamp_ms for snapshot in table.snapshots()), reverse=True)
    if len(times) > 2 * MAX_SNAPSHOTS:
        expire(lake, min(times[MAX_SNAPSHOTS] / 1000, time.time() - RECENT))


def owes(lake: LakeTable) -> bool:
    """Return True if older snapshots contain rows that were erased."""
    snapshots = sorted(lake.load().snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
    return any(snapshot.summary and ERASED in snapshot.summary.additional_properties for snapshot in snapshots[1:])


def expire(lake: LakeTable, before: float, *, erased: bool = False) -> Expired:
    """Remove snapshots from before a time, epoch seconds, and all files that no other snapshot needs.

    The current and named snapshots stay.

    `erased`: the old ones contain erased rows, so a named snapshot is a StoreError. Data files are deleted before the
    snapshots, from which a repeated call learns what is still to be deleted.
    """
    for _ in range(MAX_COMMITS):
        table = lake.load()
        named = {ref.snapshot_id: name for name, ref in table.refs().items()}
        old = [
            snapshot
            for snapshot in table.snapshots()
            if snapshot.timestamp_ms < before * 1000 and snapshot.snapshot_id not in named
        ]
        try:
            was = _files(table, old, live=False)
            if erased and old:
                kept = _names(
                    _files(table, [snapshot for snapshot in table.snapshots() if snapshot not in old], live=True)
                )
                _remove(table, (path for path in was if path.endswith(".parquet") and _name(path) not in kept))
            if old:
                table.maintenance.expire_snapshots().by_ids([snapshot.snapshot_id for snapshot in old]).commit()
        except (CommitFailedException, FileNotFoundError, ValueError) as error:  # another commit came first
            log.debug("%s: another commit came between: %s", lake.name, error)
            continue
        break
    else:
        raise StoreError(f"{lake.name}: {MAX_COMMITS} commits of others came between; try it again", transient=True)
    files = _delete(lake, was)
    kept = set(named.values()) - {"main"}
    if erased and kept:
        raise StoreError(
            f"{lake.name}: {', '.join(sorted(kept))} may hold what was erased: remove them, and erase once more"
        )
    return Expired(len(old), files)


def _join(lake: LakeTable, some: Sequence[FileScanTask]) -> None:
    for group in groups(sorted(some, key=_size), LARGE_FILE_BYTES):
        if len(group) > 1:
            lake.rewrite(group, lambda rows: rows, joined=True)


def _by_day(some: Iterable[FileScanTask]) -> Mapping[str, list[FileScanTask]]:
    """Return the small files of each day."""
    by_day: dict[str, list[FileScanTask]] = {}
    for task in some:
        if _size(task) < LARGE_FILE_BYTES // 2:
            by_day.setdefault(str(task.file.partition), []).append(task)
    return by_day


def _size(task: FileScanTask) -> int:
    return task.file.file_size_in_bytes


def _delete(lake: LakeTable, gone: set[str]) -> int:
    """Delete the files in `gone`, and old files, unless the table references them."""
    table = lake.load()
    # Also its metadata, and statistics of other engines.
    statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
    others = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    others |= {statistic.statistics_path for statistic in statistics}
    named = _names(_files(table, table.snapshots(), live=True) | others)
    now = time.time()
    left = [
        path
        for path, at in lake_files.listed(table.location(), table.io)
        if at < now - (RECENT if OWN_FILE.fullmatch(_name(path)) else FOREIGN)
    ]
    return _remove(table, (path for path in {*gone, *left} if _name(path) not in named))


def _remove(table: Table, paths: Iterable[str]) -> int:
    unused = sorted(paths)
    for path in unused:
        with suppress(FileNotFoundError):
            table.io.delete(path)
    return len(unused)


def _name(path: str) -> str:
    """Return a file's name; catalogs differ in how they write the folders before it."""
    return path.rpartition("/")[2]


def _names(paths: Iterable[str]) -> set[str]:
    return {_name(path) for path in paths}


def _files(table: Table, snapshots: Sequence[Snapshot], *, live: bool) -> set[str]:
    """Return all files that these snapshots consist of; unless `live`, also those that they list as deleted."""
    paths_of: set[str] = set()
    manifests: dict[str, list[str]] = {}
    for snapshot in snapshots:
        paths_of.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in manifests:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=live)
                manifests[manifest.manifest_path] = [entry.data_file.file_path for entry in entries]
    return paths_of | {*manifests} | {path for paths in manifests.values() for path in paths}


def doubles(table: Table) -> dict[Key, Rank]:
    """Return the best rank of each turn with several records: its rows are in several files."""
    some = tasks(table)
    twice = _twice(table, some)
    if not twice:
        return {}
    tables = []
    for task in some:
        rows = read(table, [task], ROWS)
        tables.append(
            rows.filter(pa.array([hash(turn_id) in twice for turn_id in rows["turn_id"].to_pylist()], pa.bool_()))
        )
    return lake_merge.doubles(pa.concat_tables(tables))


def _twice(table: Table, some: list[FileScanTask]) -> set[int]:
    """Return hashes of the turn ids that are in several files; also a few hashes of other ids."""
    passes = 1 + sum(task.file.record_count for task in some) // HASHES_BATCH
    repeated: set[int] = set()
    for number in range(passes):
        hashes = []
        for task in some:
            ids = read(table, [task], ["turn_id"])["turn_id"].unique().to_pylist()
            mine = {each for id_ in ids if (each := hash(id_)) % passes == number}
            hashes.append(pa.array(mine, pa.int64()))
        counts = pc.value_counts(pa.chunked_array(hashes, pa.int64()))
        repeated.update(counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist())
    return repeated
