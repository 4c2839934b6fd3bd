"""A commit to a table of the lake: it replaces files by others, and sets the snapshot's properties. Its calls block."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipeline.stores.archive import lake_offsets
from pipeline.stores.archive.lake_offsets import PROPERTY, Offsets
from pipeline.stores.archive.lake_read import read
from pipeline.stores.archive.lake_schema import DAY

ERASED: Final = "turnmill.erased"  # on a snapshot: earlier snapshots contain rows that must be removed


@dataclass(frozen=True, slots=True)
class Change:
    """One commit: files of `drop` are replaced by their rows in `kept`; `add` is added; `offsets` are recorded.

    `joined`: the kept rows become one file, else one file each. `erases`: older snapshots contain erased rows.
    """

    offsets: Offsets
    drop: Sequence[FileScanTask] = ()
    kept: Callable[[pa.Table], pa.Table] = lambda rows: rows
    add: pa.Table | None = None
    joined: bool = False
    erases: bool = False


def written(table: Table, change: Change) -> Iterator[DataFile]:
    """Write the change's files. Memory holds at most the rows of one of its files, or of all if they are joined."""
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
    properties = {PROPERTY: lake_offsets.text(change.offsets)} | ({ERASED: "true"} if change.erases else {})
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
    """Return the rows with these columns; null in those that they lack, such as one that a newer version has added."""
    return pa.table(
        [
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in columns
        ],
        schema=columns,
    )
