"""Reading a table of the lake: the offsets in its snapshots, the files that may have some rows, and columns of them.

Property `turnmill.offsets` of a snapshot: {"TOPIC/PARTITION": [begin, end, at]}, end exclusive; `at` is the newest of
the records' times, epoch ms. A segment within this range is written already. The time distinguishes it from a segment
of a deleted and recreated topic, whose offsets begin anew. Functions that take a table block.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
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
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from pipeline.stores.archive import lake_merge
from pipeline.stores.archive.lake_catalog import DAY
from pipeline.stores.archive.lake_merge import Key, Rank
from pipeline.turns.column_text import column_text
from topics import json_text
from topics.thread_key import ThreadKey

PROPERTY: Final = "turnmill.offsets"

Offsets = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Source:
    """A range of offsets of a partition, `end` exclusive; `at`: the newest time of its records, epoch ms."""

    topic: str
    partition: int
    begin: int
    end: int
    at: int

    @property
    def name(self) -> str:
        """The name in the property."""
        return f"{self.topic}/{self.partition}"


def parse(text: str | None) -> Offsets:
    """Return the offsets of the property's value; none where it is missing."""
    return {name: (begin, end, at) for name, (begin, end, at) in json_text.loads(text or "{}").items()}


def text_of_offsets(offsets: Offsets) -> str:
    """Return the property's value."""
    return json_text.dumps({name: list(offsets[name]) for name in sorted(offsets)})


def holds(offsets: Offsets, source: Source) -> bool:
    """Return True if these offsets contain the whole range."""
    if source.name not in offsets:
        return False
    begin, end, at = offsets[source.name]
    return begin <= source.begin and source.end <= end and source.at <= at


def with_source(offsets: Offsets, source: Source) -> Offsets:
    """Return the offsets with one more range; it replaces a known range that it doesn't continue."""
    begin, end, at = offsets.get(source.name, (source.begin, source.begin, source.at))
    if end != source.begin:  # maybe of another topic of that name; and writing a segment twice does no harm
        begin, at = source.begin, source.at
    return {**offsets, source.name: (begin, source.end, max(at, source.at))}


SLACK: Final = timedelta(days=1)  # how much the beginning of a turn may differ between its revisions
ONE_DAY: Final = timedelta(days=1)
ROWS: Final = (*lake_merge.KEY, *lake_merge.RANK)


def offsets_of(table: Table) -> Offsets:
    """Return the offsets of our newest snapshot; snapshots of other engines have none."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        text = snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None
        if text is not None:
            return parse(text)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return {}


def tasks(table: Table, where: BooleanExpression | None = None) -> list[FileScanTask]:
    """Return the files that may have such rows."""
    return list(table.scan(row_filter=where or AlwaysTrue()).plan_files())


def read(table: Table, some: Sequence[FileScanTask], columns: Collection[str] | None = None) -> pa.Table:
    """Return all rows of some files, or some of their columns."""
    schema = table.schema() if columns is None else table.schema().select(*columns)
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(some)


def held(
    table: Table, days: Collection[date | None], turns: Collection[Key]
) -> Iterator[tuple[FileScanTask, pa.Table]]:
    """Yield the files with some of these turns of these days, and their KEY and RANK; of others read only turn ids."""
    wanted = pa.array(sorted({turn_id for _, _, turn_id in turns}), pa.string())
    for task in tasks(table, on_days(days, SLACK)):
        ids = read(table, [task], ["turn_id"])["turn_id"]
        if pc.any(pc.is_in(ids, value_set=wanted.cast(ids.type))).as_py():
            yield task, lake_merge.of_turns(read(table, [task], ROWS), turns)


def standing(table: Table, days: Collection[date | None], ranks: Mapping[Key, Rank]) -> dict[Key, Rank]:
    """Return the highest rank of each turn in `ranks` and in the table."""
    return lake_merge.highest((rows for _, rows in held(table, days, ranks)), ranks)


def of_threads(keys: Collection[ThreadKey]) -> BooleanExpression:
    """Return the condition of these threads' rows; it may match other tenants' threads with the same ids."""
    return In(term="thread_id", literals={key.thread_id for key in keys})


def of_tenant(tenant: str) -> BooleanExpression:
    """Return the condition of a tenant's rows; '' matches rows without a tenant."""
    return EqualTo(term="tenant", value=column_text(tenant)) if tenant else IsNull(term="tenant")


def on_days(days: Iterable[date | None], slack: timedelta = timedelta(0)) -> BooleanExpression:
    """Return the condition of turns that began on these days (UTC), give or take `slack`, or have no known time."""
    spans: list[tuple[date, date]] = []
    for day in sorted(day for day in days if day is not None):
        if spans and day - slack <= spans[-1][1] + ONE_DAY:
            spans[-1] = spans[-1][0], day + slack
        else:
            spans.append((day - slack, day + slack))
    unknown: BooleanExpression = IsNull(term=DAY)
    return reduce(
        Or,
        [And(GreaterThanOrEqual(term=DAY, value=_at(a)), LessThan(term=DAY, value=_at(b + ONE_DAY))) for a, b in spans],
        unknown,
    )


def _at(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()
