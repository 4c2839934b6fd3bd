"""A table of the lake: Apache Iceberg, by pyiceberg. Its calls block.

Files are never changed: a commit names the files that it removes and adds, and succeeds only if no other commit came
first; otherwise it is computed again from the new state. So each snapshot contains each turn once.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipeline.stores.archive import lake_catalog, lake_merge, lake_read
from pipeline.stores.archive.lake_catalog import DAY, MAX_COMMITS, NAMESPACE
from pipeline.stores.archive.lake_merge import ABOVE_ALL, Key, Rank
from pipeline.stores.archive.lake_read import PROPERTY, Offsets, Source, read
from pipeline.stores.database.errors import StoreError

ERASED: Final = "turnmill.erased"  # on a snapshot: earlier snapshots contain rows that must be removed


@dataclass(frozen=True, slots=True)
class Change:
    """One commit: files of `drop` are replaced by their rows in `kept`; `add` is added; `offsets` are recorded.

    `joined`: the kept rows become a single file, else a file each. `erases`: older snapshots contain erased rows.
    """

    offsets: Offsets
    drop: Sequence[FileScanTask] = ()
    kept: Callable[[pa.Table], pa.Table] = lambda rows: rows
    add: pa.Table | None = None
    joined: bool = False
    erases: bool = False


def written(table: Table, change: Change) -> Iterator[DataFile]:
    """Write the change's files. Memory holds at most the rows of a file, or of all if they are joined."""
    for some in [change.drop] if change.joined and change.drop else [[task] for task in change.drop]:
        rows = change.kept(read(table, some))
        if change.joined:
            rows = rows.sort_by([("thread_id", "ascending"), (DAY, "ascending")])
        yield from (_write(table, day, part) for day, part in _by_day(rows))
        del rows
    if change.add is not None:
        yield from (_write(table, day, part) for day, part in _by_day(change.add))


def swap(table: Table, change: Change, files: Sequence[DataFile]) -> int | None:
    """Commit; return the id of the snapshot. Raises CommitFailedException if another commit came first."""
    transaction = table.transaction()
    properties = {PROPERTY: lake_read.text_of_offsets(change.offsets)} | ({ERASED: "true"} if change.erases else {})
    update = transaction.update_snapshot(snapshot_properties=properties)
    with update.overwrite() if change.drop else update.fast_append() as snapshot:
        for task in change.drop:
            snapshot.delete_data_file(task.file)
        for file in files:
            snapshot.append_data_file(file)
    done = transaction.table_metadata.current_snapshot_id
    transaction.commit_transaction()
    return done


def _by_day(rows: pa.Table) -> Iterable[tuple[date | None, pa.Table]]:
    days = rows[DAY].cast(pa.date32())
    for day in days.unique().to_pylist():
        yield day, rows.filter(pc.is_null(days) if day is None else pc.equal(days, day))


def _write(table: Table, day: date | None, rows: pa.Table) -> DataFile:
    path = f"{table.location()}/data/day={day.isoformat() if day else 'unknown'}/{uuid.uuid4().hex}.parquet"
    columns = schema_to_pyarrow(table.schema(), include_field_ids=True)
    with table.io.new_output(path).create() as out:
        pq.write_table(_with_columns(rows, columns), out, compression="zstd")
    return parquet_file_to_data_file(table.io, table.metadata, path)


def _with_columns(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the rows with these columns; null in those that they lack, such as columns of a newer version."""
    return pa.table(
        [
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in columns
        ],
        schema=columns,
    )


log = logging.getLogger(__name__)

COMMIT_BYTES: Final = 67_108_864  # of files that a commit of an erasure replaces, lost if another comes between


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit: rows added, bytes written, files removed; `best`: each turn's valid rank."""

    rows: int = 0
    bytes: int = 0
    files: int = 0
    snapshot: int | None = None
    best: Mapping[Key, Rank] = field(default_factory=dict)


class LakeTable:
    """The table turnmill.NAME at `location`; at its first use it is created, and gets the columns that it lacks."""

    def __init__(self, catalog: Catalog, name: str, columns: pa.Schema, location: str) -> None:
        self.catalog = catalog
        self.name = name
        self.columns = columns
        self.location = location
        self.ready = False

    def load(self) -> Table:
        """Return the table as it is now."""
        if not self.ready:
            lake_catalog.make(self.catalog, self.name, self.columns, self.location)
            self.ready = True
        return self.catalog.load_table((NAMESPACE, self.name))

    def merge(
        self,
        rows: pa.Table,
        ranks: Callable[[], Mapping[Key, Rank]],
        days: Collection[date | None],
        source: Source,
        *,
        erases: bool = False,
    ) -> Committed:
        """Add the rows of turns that rank higher than the table's; these are removed.

        `ranks` and `days`: of each turn that is added or removed, also of turns without rows. `erases`: some are
        removed for good, so the table is searched for them even if it contains the segment already.
        """
        best: dict[Key, Rank] = {}

        def change(table: Table) -> Change | None:
            offsets = lake_read.offsets_of(table)
            again = lake_read.holds(offsets, source)
            if again and not erases:
                return None
            files = list(lake_read.held(table, days, known := ranks()))
            there = [some for _, some in files]
            best.clear()
            best.update(lake_merge.highest(there, known))
            drop = [task for task, some in files if lake_merge.has_lower(some, best)]
            new = lake_merge.unknown(rows, there, best)
            if again and not drop and not new.num_rows:
                return None
            later = offsets if again else lake_read.with_source(offsets, source)
            gone = erases and any(best.get(key) == ABOVE_ALL for some in there for key in lake_merge.keys(some))
            return Change(later, drop, partial(lake_merge.without_lower, best=best), new, erases=gone)

        done = self.commit(change)
        return Committed(done.rows, done.bytes, done.files, done.snapshot, best)

    def remove(
        self,
        where: BooleanExpression,
        columns: Collection[str],
        kept: Callable[[pa.Table], pa.Table],
        *,
        erases: bool = False,
    ) -> int:
        """Remove rows in several commits; return how many files had any; `kept`: rows (`columns`) -> what stays."""
        has: dict[str, bool] = {}  # by path: files never change
        while files := list(self._having(where, columns, kept, has)):
            for some in groups(files, COMMIT_BYTES):
                self.rewrite(some, kept, erases=erases)
        return sum(has.values())

    def rewrite(
        self,
        some: Sequence[FileScanTask],
        kept: Callable[[pa.Table], pa.Table],
        *,
        joined: bool = False,
        erases: bool = False,
    ) -> Committed:
        """Rewrite these files, as far as they still exist, without the rows that `kept` removes."""
        paths = {task.file.file_path for task in some}

        def change(table: Table) -> Change | None:
            drop = [task for task in lake_read.tasks(table) if task.file.file_path in paths]
            if not drop or (joined and len(drop) == 1):
                return None
            return Change(lake_read.offsets_of(table), drop, kept, joined=joined, erases=erases)

        return self.commit(change)

    def look(self, where: BooleanExpression, columns: Collection[str]) -> Iterator[pa.Table]:
        """Yield these columns of each file that may contain such rows."""
        table = self.load()
        for task in lake_read.tasks(table, where):
            yield lake_read.read(table, [task], columns)

    def commit(self, change: Callable[[Table], Change | None]) -> Committed:
        """Commit the change of the current table; compute it again from the new state if another commit came first."""
        for _ in range(MAX_COMMITS):
            table = self.load()
            files: list[DataFile] = []
            try:
                if (todo := change(table)) is None:
                    return Committed()
                files.extend(written(table, todo))
                snapshot = swap(table, todo, files)
            except (CommitFailedException, ValidationException) as error:
                log.debug("%s: another commit came between: %s", self.name, error)
                for file in files:
                    with suppress(FileNotFoundError):
                        table.io.delete(file.file_path)
            except FileNotFoundError as error:  # an erasure has deleted the table's files
                log.debug("%s: another commit came between: %s", self.name, error)
            else:
                new = 0 if todo.add is None else todo.add.num_rows
                return Committed(new, sum(file.file_size_in_bytes for file in files), len(todo.drop), snapshot)
            lake_catalog.pause()
        raise StoreError(f"{self.name}: {MAX_COMMITS} commits of others came between; try it again", transient=True)

    def _having(
        self,
        where: BooleanExpression,
        columns: Collection[str],
        kept: Callable[[pa.Table], pa.Table],
        has: dict[str, bool],
    ) -> Iterator[FileScanTask]:
        """Yield the files with rows to be removed."""
        table = self.load()
        for task in lake_read.tasks(table, where):
            path = task.file.file_path
            if path not in has:
                rows = lake_read.read(table, [task], columns)
                has[path] = kept(rows).num_rows < rows.num_rows
            if has[path]:
                yield task


def groups(some: Sequence[FileScanTask], most: int) -> Iterator[list[FileScanTask]]:
    """Yield the files in groups of at most `most` bytes, at least a file in each."""
    group: list[FileScanTask] = []
    size = 0
    for task in some:
        if group and size + task.file.file_size_in_bytes > most:
            yield group
            group, size = [], 0
        group.append(task)
        size += task.file.file_size_in_bytes
    if group:
        yield group
