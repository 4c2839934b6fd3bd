"""Storing turns, with all that follows from them."""

from collections.abc import Sequence
from functools import partial
from itertools import repeat

from pipeline.policies.retention import Retention
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.write import FOREVER, compare, write
from topics.turn_record import TurnRecord


async def write_turns(
    store: ThreadStore,
    records: Sequence[TurnRecord],
    retention: Retention = FOREVER,
    now: int = 0,
    values: Sequence[bytes | None] = (),
) -> WriteResult:
    """Store a batch in a transaction.

    `values`: the records' original JSON, from callers that have it.

    A turn is replaced by a record that holds all of its events and ranks higher (`stores.threads.write`). These
    records change nothing: any that is stored already, is of an erased thread, or is of a turn that is not stored,
    and that is older at `now` (epoch ms) than the retention, unless its thread is held. Several processes may write
    the same records. A cancelled call ends its transaction first.
    """
    if not records:
        return WriteResult()
    batch = dict(enumerate(map(record_rows, records, values or repeat(None), repeat(store.prices))))
    return await store.written(partial(write, batch=batch, books=BOOKS, retention=retention, now=now))


async def compare_turns(
    store: ThreadStore, records: Sequence[TurnRecord], retention: Retention = FOREVER, now: int = 0
) -> WriteResult:
    """Return the result that `write_turns` would have now; change nothing."""
    if not records:
        return WriteResult()
    batch = dict(enumerate(map(record_rows, records, repeat(None), repeat(store.prices))))
    async with store.reading() as connection:
        return await compare(connection, batch, retention, now)
