"""The sums of usage, within the caller's transaction: applying changes, building sums from rows, comparing them.

Triggers of `usage` record in `usage_changes` each row that is added or deleted, in the same transaction, whoever
writes: a store role, a replay, an erasure. Soon after, a single process at a time applies the changes to `usage_sums`.
Readers count both, so sums are right after each commit, and no two writers ever wait for the same sum.

The sums include all rows of `usage` from `since` on. They are built backwards from the newest row: from the rows of
`usage` without the pending changes, both read by the same statement. So no writer waits while they are built, either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from pipeline.stores.database.expressions import row_one_of
from pipeline.stores.database.ids import INSERT, forget_unused
from pipeline.stores.database.keys import UsageNames
from pipeline.stores.database.schema import CHANGED, turns, usage, usage_changes, usage_names, usage_state, usage_sums
from pipeline.stores.database.sending import of_rows, portions, send
from pipeline.stores.threads.statements import number_of
from pipeline.stores.usage.tallies import (
    QUARTER,
    SPANS,
    TALLIED,
    WEEK,
    SumKey,
    Tally,
    of_all_spans,
    of_changes,
    of_usage,
    tallied,
    tallies,
)
from topics.thread_key import ThreadKey

LOCK_KEY: Final = 0x74726E6D73756D  # of Postgres' advisory lock: "trnmsum"
CHANGES_BATCH: Final = 10_000
ROWS_BATCH: Final = 20_000  # from which a transaction builds sums
PLACE: Final = tuple(usage_sums.c[name] for name in SumKey._fields)
VALUES: Final = tuple(usage_sums.c[name] for name in TALLIED)
NAMED: Final = (  # the rows that use a name; every sum is also part of its week's
    exists().where(usage.c.names == usage_names.c.id),
    exists().where(usage_sums.c.span == WEEK, usage_sums.c.names == usage_names.c.id),
    exists().where(usage_changes.c.names == usage_names.c.id),
)
ALL: Final = 0  # `since`, if the sums include every row
NONE: Final = 2**62  # `since`, if they include none


@dataclass(frozen=True, slots=True)
class Compared:
    """How many `sums` were compared, and which are `wrong`, with their names; `since`: see `usage_state`."""

    sums: int
    wrong: tuple[tuple[SumKey, UsageNames], ...]
    since: int | None


async def alone(connection: AsyncConnection, *, wait: bool = False) -> bool:
    """Lock the sums for other processes until the transaction ends; return whether the caller may change them."""
    if connection.dialect.name != "postgresql":
        return True  # SQLite has one writer
    if wait:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        return True
    return bool(await connection.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": LOCK_KEY}))


async def since(connection: AsyncConnection) -> int:
    """Return from when on the sums include all rows; NONE if they include none."""
    row = (await connection.execute(select(usage_state.c.kept, usage_state.c.since))).one()
    return row.since if row.kept and row.since is not None else NONE


async def kept(connection: AsyncConnection) -> bool:
    """Return True if changes are recorded."""
    return bool(await connection.scalar(select(usage_state.c.kept)))


async def unfinished(connection: AsyncConnection) -> bool:
    """Return True if there are changes to add, or rows to build sums from."""
    if await connection.scalar(select(usage_changes.c.id).limit(1)) is not None:
        return True
    return await kept(connection) and await since(connection) != ALL


async def keep(connection: AsyncConnection, *, wanted: bool) -> None:
    """Keep sums from now on, or stop keeping them; those of expired turns stay."""
    await alone(connection, wait=True)
    if await kept(connection) == wanted:
        return
    if wanted and connection.dialect.name == "postgresql":  # current writers have read the state already
        await connection.execute(text("LOCK TABLE usage IN SHARE ROW EXCLUSIVE MODE"))
    await connection.execute(delete(usage_changes).where(~usage_changes.c.expired))
    await _forget(connection)
    await connection.execute(update(usage_state).values(kept=wanted))


async def keep_expired(connection: AsyncConnection, thread: ThreadKey) -> None:
    """Record a thread's usage as sums of expired turns; its rows are deleted in the same transaction."""
    if await kept(connection):
        columns = [usage.c[name] for name in CHANGED]
        mine = select(turns.c.id).where(turns.c.thread == number_of(thread))
        rows = select(literal(1), literal(value=True), *columns).where(usage.c.turn.in_(mine))
        await connection.execute(insert(usage_changes).from_select(["sign", "expired", *CHANGED], rows))


async def take_up(connection: AsyncConnection, most: int = CHANGES_BATCH) -> int:
    """Apply the oldest changes to the sums; return how many there were."""
    oldest = select(usage_changes.c.id).order_by(usage_changes.c.id).limit(most).subquery()
    count, last = (await connection.execute(select(func.count(), func.max(oldest.c.id)))).one()
    if not count:
        return 0
    dialect = connection.dialect.name
    changed = await tallies(connection, _changes(dialect), {"last": last, "begin": await since(connection)})
    if dialect == "sqlite":
        await connection.execute(delete(usage_changes).where(usage_changes.c.id <= last))
    await _add(connection, changed)
    return int(count)


@cache
def _changes(dialect: str) -> Select[Any]:
    """Return the query of the changes up to `last`, which Postgres also deletes: a second statement might see more.

    Building it takes longer than summing the changes of a batch.
    """
    noted = usage_changes.c.id <= bindparam("last")
    begin = bindparam("begin", type_=BigInteger)
    if dialect == "postgresql":
        taken = delete(usage_changes).where(noted).returning(*usage_changes.c).cte("taken")
        return tallied(of_changes(taken, _counts(taken, begin)).cte("counted"))
    return tallied(of_changes(usage_changes, noted, _counts(usage_changes, begin)).cte("counted"))


async def build(connection: AsyncConnection, most: int = ROWS_BATCH) -> int:
    """Build the sums of about `most` older rows; return from when on the sums now include all rows."""
    end = await since(connection)
    if end == ALL or not await kept(connection):
        return end
    before = select(usage.c.at).where(usage.c.at < end).order_by(usage.c.at.desc()).offset(most).limit(1)
    at = await connection.scalar(before)
    begin = ALL if at is None else at - at % QUARTER
    if await _add(connection, await _right(connection, begin, end), first=end):
        await connection.execute(update(usage_state).values(since=begin))
        if begin == ALL:  # changes of rows without sums were dropped; their names may be unused now
            await forget_names(connection, await connection.scalars(select(usage_names.c.id)))
    return await since(connection)


async def compare(connection: AsyncConnection, week: int, begin: int) -> dict[SumKey, tuple[Tally, Tally]]:
    """Return the right and the stored value of each sum of a week, from `begin` on, also if one of them is missing."""
    right = of_all_spans(await _right(connection, max(week, begin), week + WEEK))
    sums = usage_sums.c
    its_own = and_(sums.span.in_(SPANS), sums.names == usage_names.c.id + 0)  # looked up for each name in turn
    query = select(*PLACE, *VALUES).select_from(usage_names.join(usage_sums, its_own))
    of_week = and_(sums.start >= week, sums.start < week + WEEK, ~sums.expired)
    stored = await _read(connection, query.where(of_week))
    return {key: (right.get(key, Tally()), stored.get(key, Tally())) for key in {*right, *stored}}


async def next_week(connection: AsyncConnection, after: int) -> int | None:
    """Return the first week from `after` on that has rows or sums, in epoch ms."""
    at = await connection.scalar(select(func.min(usage.c.at)).where(usage.c.at >= after))
    of_weeks = and_(usage_sums.c.span == WEEK, usage_sums.c.start >= after - after % WEEK, ~usage_sums.c.expired)
    start = await connection.scalar(select(func.min(usage_sums.c.start)).where(of_weeks))
    weeks = [time - time % WEEK for time in (at, start) if time is not None]
    return min(weeks, default=None)


def _counts(changes: Any, begin: BindParameter[int]) -> ColumnElement[bool]:
    """Return the condition of changes to be counted: changes of rows before `begin` are part of sums not built yet."""
    return or_(changes.c.expired, changes.c.at >= begin)


async def _right(connection: AsyncConnection, begin: int, end: int) -> dict[SumKey, Tally]:
    """Return the right sums of this period: the rows, without the pending changes."""
    rows = of_usage(usage.c.at >= begin, usage.c.at < end)
    noted = and_(usage_changes.c.at >= begin, usage_changes.c.at < end, ~usage_changes.c.expired)
    source = union_all(rows, of_changes(usage_changes, noted, undone=True)).cte("counted")
    right = await tallies(connection, tallied(source))
    return {key: tally for key, tally in right.items() if not tally.empty}


async def _add(connection: AsyncConnection, quarters: Mapping[SumKey, Tally], first: int = ALL) -> bool:
    """Add these to the sums; return False if that gives an impossible sum. `first`: all known sums end after it."""
    sums = of_all_spans(quarters)
    there = [key for key in sums if key.start + key.span > first]
    for key, tally in (await _stored(connection, there)).items():
        tally.add(sums[key])
        sums[key] = tally
    if not all(tally.possible for tally in sums.values()):
        # The sums were wrong: they are deleted and built again, and until then rows are read.
        await _forget(connection)
        return False
    await put(connection, sums)
    return True


async def _stored(connection: AsyncConnection, places: Iterable[SumKey]) -> dict[SumKey, Tally]:
    """Return the stored ones of these sums."""
    stored = dict[SumKey, Tally]()
    for some in portions(sorted(places)):
        stored |= await _read(connection, select(*PLACE, *VALUES).where(row_one_of(PLACE, some)))
    return stored


async def _read(connection: AsyncConnection, query: Select[Any]) -> dict[SumKey, Tally]:
    rows = await connection.execute(query)
    return {SumKey(span, start, expired, names): Tally.of(values) for span, start, expired, names, *values in rows}


async def put(connection: AsyncConnection, sums: Mapping[SumKey, Tally]) -> None:
    """Replace the stored sums by these."""
    rows, gone = [], []
    for key, tally in sums.items():
        if tally.empty:
            gone.append(key)
        else:
            rows.append(key._asdict() | tally.columns())
    for some in portions(gone):
        await connection.execute(delete(usage_sums).where(row_one_of(PLACE, some)))
    dialect = connection.dialect.name
    await send(connection, [of_rows(dialect, _replacing(dialect), some) for some in portions(rows)])
    await forget_names(connection, {key.names for key in gone})


@cache
def _replacing(dialect: str) -> Insert:
    new = INSERT[dialect](usage_sums)
    values = {name: new.excluded[name] for name in TALLIED}
    return cast("Insert", new.on_conflict_do_update(index_elements=usage_sums.primary_key, set_=values))


async def names_of(connection: AsyncConnection, sums: Iterable[SumKey]) -> dict[int, UsageNames]:
    """Return the names of these sums by their integers."""
    by_id: dict[int, UsageNames] = {}
    columns = (usage_names.c.id, *(usage_names.c[name] for name in UsageNames._fields))
    for some in portions(sorted({key.names for key in sums})):
        for id_, *names in await connection.execute(select(*columns).where(usage_names.c.id.in_(some))):
            by_id[id_] = UsageNames(*names)
    return by_id


async def _forget(connection: AsyncConnection) -> None:
    await connection.execute(delete(usage_sums).where(~usage_sums.c.expired))
    await connection.execute(update(usage_state).values(since=None))
    await forget_names(connection, await connection.scalars(select(usage_names.c.id)))


async def forget_names(connection: AsyncConnection, ids: Iterable[int]) -> None:
    """Delete those of these names of `usage_names` that no usage, no sum and no change refers to any more."""
    await forget_unused(connection, usage_names, ids, NAMED)
