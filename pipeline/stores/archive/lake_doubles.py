"""Turns that a table of the lake contains twice, on days far apart. Its calls block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask, Table

from pipeline.stores.archive import lake_merge
from pipeline.stores.archive.lake_merge import Key, Rank
from pipeline.stores.archive.lake_read import ROWS, read, tasks

BATCH_SIZE: Final = 8_000_000  # rows whose hashes are compared in one pass


def doubles(table: Table) -> dict[Key, Rank]:
    """Return the best rank of each turn that has rows of several ranks.

    All rows of a turn's record are in one file, so these are turns with rows in several files.
    """
    some = tasks(table)
    twice = _twice(table, some)
    if not twice:
        return {}
    found = []
    for task in some:
        rows = read(table, [task], ROWS)
        found.append(rows.filter(pa.array([hash(one) in twice for one in rows["turn_id"].to_pylist()], pa.bool_())))
    return lake_merge.doubles(pa.concat_tables(found))


def with_lower(table: Table, best: Mapping[Key, Rank]) -> Iterator[FileScanTask]:
    """Yield the files with rows that rank lower than the best of their turn."""
    return (task for task in tasks(table) if lake_merge.has_lower(read(table, [task], ROWS), best))


def _twice(table: Table, some: list[FileScanTask]) -> set[int]:
    """Return hashes of the turn ids that are in several files; also a few hashes of other ids."""
    passes = 1 + sum(task.file.record_count for task in some) // BATCH_SIZE
    found: set[int] = set()
    for number in range(passes):
        hashes = []
        for task in some:
            ids = read(table, [task], ["turn_id"])["turn_id"].unique().to_pylist()
            mine = {each for one in ids if (each := hash(one)) % passes == number}
            hashes.append(pa.array(mine, pa.int64()))
        counts = pc.value_counts(pa.chunked_array(hashes, pa.int64()))
        found.update(counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist())
    return found
