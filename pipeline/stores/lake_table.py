"""A table of the lake: Apache Iceberg, by pyiceberg. Its calls block.

Files are never changed: a commit names the files that go and those that come, and takes place only where no other one
has come between; else it is made anew, from what is there then. So each snapshot holds each turn once.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    Or,
)
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import DayTransform
from pyiceberg.types import IcebergType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from pipeline.errors import StoreError
from pipeline.stores import lake_files, lake_merge, lake_offsets
from pipeline.stores.lake_merge import Key, Rank
from pipeline.stores.lake_offsets import PROPERTY, Offsets, Source
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

log = logging.getLogger(__name__)

NAMESPACE: Final = "threadmill"
DAY: Final = "started_at"  # the column that the partitions are days of
SLACK: Final = timedelta(days=1)  # by which the beginning of a turn may differ between its revisions
TRIES: Final = 50  # commits of others that may come between
PAUSE: Final = 0.4  # seconds before a commit is made anew, at most
ROWS: Final = (*lake_merge.KEY, *lake_merge.RANK)
TYPES: Final[Mapping[pa.DataType, IcebergType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}
PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # a commit that is repeated as it is would add turns that another one has added
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.metrics.column.document": "none",  # bounds of texts prune nothing
    "write.metadata.metrics.column.facts": "none",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does: files that go, rows that come, and the offsets of the snapshot. `files`: that held a row that
    goes.
    """

    drop: Sequence[FileScanTask]
    add: pa.Table
    offsets: Offsets
    files: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """Rows and bytes that were written; files that held a row that went."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


class LakeTable:
    """The table threadmill.NAME, at `location`; it is made, and gets columns that it lacks, when it is first used."""

    def __init__(self, catalog: Catalog, name: str, columns: pa.Schema, location: str) -> None:
        self.catalog = catalog
        self.name = name
        self.columns = columns
        self.location = location
        self.ready = False

    def load(self) -> Table:
        """The table as it is now."""
        if not self.ready:
            self._make()
            self.ready = True
        return self.catalog.load_table((NAMESPACE, self.name))

    def merge(
        self, rows: pa.Table, ranks: Mapping[Key, Rank], days: Collection[date | None], source: Source
    ) -> Committed:
        """Put in the rows of turns that rank higher than what is there, which goes. `ranks` and `days`: of each turn
        that comes, also of those without rows.
        """

        def change(table: Table) -> Change | None:
            offsets = offsets_of(table)
            if lake_offsets.holds(offsets, source):
                return None
            later = lake_offsets.with_source(offsets, source)
            near = tasks(table, _around(days))
            held = [lake_merge.of_turns(read(table, [task], ROWS), ranks) for task in near]
            best = lake_merge.highest(held, ranks)
            drop = [task for task, some in zip(near, held, strict=True) if lake_merge.has_lower(some, best)]
            stay = lake_merge.without_lower(read(table, drop), best)
            new = lake_merge.unknown(rows, held, best)
            return Change(drop, _joined([stay, new], table), later, len(drop))

        return self._commit(change)

    def remove(
        self, where: BooleanExpression, columns: Collection[str], kept: Callable[[pa.Table], pa.Table]
    ) -> Committed:
        """Remove rows; older snapshots still have them. `kept`: some rows -> those that stay; it needs `columns` alone,
        and takes none away where `where` does not hold.
        """

        def change(table: Table) -> Change | None:
            drop = []
            for task in tasks(table, where):
                rows = read(table, [task], columns)
                if kept(rows).num_rows < rows.num_rows:
                    drop.append(task)
            if not drop:
                return None
            return Change(drop, kept(read(table, drop)), offsets_of(table), len(drop))

        return self._commit(change)

    def look(self, where: BooleanExpression, columns: Collection[str]) -> Iterator[pa.Table]:
        """Columns of each file that may hold such rows."""
        table = self.load()
        for task in tasks(table, where):
            yield read(table, [task], columns)

    def rewrite(self, plan: Callable[[Table], tuple[Sequence[FileScanTask], Mapping[Key, Rank]]]) -> Committed:
        """Write the rows of some files anew, together, without those that rank lower than `plan` says."""

        def change(table: Table) -> Change | None:
            drop, best = plan(table)
            if not drop:
                return None
            rows = lake_merge.without_lower(read(table, drop), best)
            return Change(drop, rows.sort_by([("thread_id", "ascending"), (DAY, "ascending")]), offsets_of(table))

        return self._commit(change)

    def _commit(self, change: Callable[[Table], Change | None]) -> Committed:
        """Make the change of the table as it is; once more, of what it is then, where another one came between."""
        for _ in range(TRIES):
            table = self.load()
            written: list[DataFile] = []
            try:
                if (todo := change(table)) is None:
                    return Committed()
                written = [_write(table, day, rows) for day, rows in _by_day(todo.add)]
                _swap(table, [task.file for task in todo.drop], written, todo.offsets)
            except (CommitFailedException, ValidationException, FileNotFoundError) as error:
                log.debug("%s: another commit came between: %s", self.name, error)
                for file in written:
                    with suppress(FileNotFoundError):
                        table.io.delete(file.file_path)
                time.sleep(random.uniform(0.1, 1) * PAUSE)  # noqa: S311  # jitter
                continue
            return Committed(todo.add.num_rows, sum(file.file_size_in_bytes for file in written), todo.files)
        raise StoreError(f"{self.name}: {TRIES} commits of others came between; try it again", transient=True)

    def _make(self) -> None:
        self.catalog.create_namespace_if_not_exists(NAMESPACE)
        fields = [
            NestedField(number, field.name, TYPES[field.type], required=False)
            for number, field in enumerate(self.columns, 1)
        ]
        schema = Schema(*fields)
        self._refuse_other_catalogs()
        day = PartitionField(schema.find_field(DAY).field_id, 1000, DayTransform(), "day")
        with suppress(TableAlreadyExistsError):
            self.catalog.create_table_if_not_exists(
                (NAMESPACE, self.name), schema, self.location, PartitionSpec(day), properties=PROPERTIES
            )
        for _ in range(TRIES):
            table = self.catalog.load_table((NAMESPACE, self.name))
            missing = [field for field in self.columns if field.name not in table.schema().column_names]
            retries = "commit.retry.num-retries"
            try:
                if missing:
                    with table.update_schema() as update:
                        for field in missing:
                            update.add_column(field.name, TYPES[field.type])
                if table.properties.get(retries) != PROPERTIES[retries]:
                    with table.transaction() as transaction:
                        transaction.set_properties({retries: PROPERTIES[retries]})
                return
            except CommitFailedException:  # another worker does the same
                time.sleep(random.uniform(0.1, 1) * PAUSE)  # noqa: S311  # jitter
        raise StoreError(f"{self.name}: {TRIES} changes of others came between; try it again", transient=True)

    def _refuse_other_catalogs(self) -> None:
        """Two catalogs over the same files would delete each other's."""
        if not isinstance(self.catalog, SqlCatalog) or self.catalog.table_exists((NAMESPACE, self.name)):
            return
        if any(lake_files.listed(f"{self.location}/metadata")):
            raise StoreError(
                f"{self.location} holds a table that the catalog doesn't know: name its catalog by "
                "THREADMILL_ARCHIVE_CATALOG, or another place by THREADMILL_ARCHIVE",
                transient=True,  # another worker may be about to enter it
            )


def offsets_of(table: Table) -> Offsets:
    """What the newest snapshot of ours holds; another engine's says nothing of it."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        said = snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None
        if said is not None:
            return lake_offsets.parse(said)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return {}


def tasks(table: Table, where: BooleanExpression | None = None) -> list[FileScanTask]:
    """The files that may hold such rows."""
    return list(table.scan(row_filter=where or AlwaysTrue()).plan_files())


def read(table: Table, some: Sequence[FileScanTask], columns: Collection[str] | None = None) -> pa.Table:
    """All rows of some files, or some columns of them."""
    schema = table.schema() if columns is None else table.schema().select(*columns)
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(some)


def of_threads(keys: Collection[ThreadKey]) -> BooleanExpression:
    """The rows of these threads, and perhaps of other tenants' threads with their ids."""
    return In(term="thread_id", literals={key.thread_id for key in keys})


def of_tenant(tenant: str) -> BooleanExpression:
    """The rows of a tenant; '' has those without one."""
    return EqualTo(term="tenant", value=column_text(tenant)) if tenant else IsNull(term="tenant")


def _around(days: Iterable[date | None]) -> BooleanExpression:
    """The rows of turns that began on these days, or near them, or at no known time."""
    spans: list[tuple[date, date]] = []
    for day in sorted(day for day in days if day is not None):
        if spans and day - SLACK <= spans[-1][1]:
            spans[-1] = spans[-1][0], day + SLACK
        else:
            spans.append((day - SLACK, day + SLACK))
    unknown: BooleanExpression = IsNull(term=DAY)
    return reduce(
        Or,
        [And(GreaterThanOrEqual(term=DAY, value=_at(a)), LessThan(term=DAY, value=_at(b + SLACK))) for a, b in spans],
        unknown,
    )


def _at(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()


def _joined(tables: Iterable[pa.Table], table: Table) -> pa.Table:
    columns = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.concat_tables([_with_columns(one, columns) for one in tables])


def _with_columns(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """The rows with these columns; null where they lack one, as where a newer version has added it."""
    return pa.table(
        [
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in columns
        ],
        schema=columns,
    )


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


def _swap(table: Table, drop: Sequence[DataFile], add: Sequence[DataFile], offsets: Offsets) -> None:
    transaction = table.transaction()
    update = transaction.update_snapshot(snapshot_properties={PROPERTY: lake_offsets.text(offsets)})
    with update.overwrite() if drop else update.fast_append() as snapshot:
        for file in drop:
            snapshot.delete_data_file(file)
        for file in add:
            snapshot.append_data_file(file)
    transaction.commit_transaction()
