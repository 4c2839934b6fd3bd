"""What a store holds, read from its tables: turn records with the rows of usage that follow from them."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from sqlalchemy import func, select

from pipeline.stores.database.keys import thread_of
from pipeline.stores.database.schema import threads, turns, usage
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.rows import record_of
from pipeline.stores.threads.statements import NAME
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

AT_ONCE = 5_000


class Stored(NamedTuple):
    """One turn: its thread, its record, and the number of its rows of usage."""

    thread: ThreadKey
    record: TurnRecord
    usage: int


async def stored_turns(store: ThreadStore) -> AsyncIterator[Stored]:
    """Every record of a store, in pages."""
    after = -1
    while True:
        query = select(turns.c.id, *NAME, turns.c.record).join(threads, turns.c.thread == threads.c.id)
        counts = select(usage.c.turn, func.count()).group_by(usage.c.turn)
        async with store.reading() as connection:
            rows = (await connection.execute(query.where(turns.c.id > after).order_by(turns.c.id).limit(AT_ONCE))).all()
            if not rows:
                return
            within = usage.c.turn >= rows[0].id, usage.c.turn <= rows[-1].id
            billed = {row[0]: row[1] for row in await connection.execute(counts.where(*within))}
        for row in rows:
            yield Stored(thread_of(row), record_of(row.record), billed.get(row.id, 0))
        after = rows[-1].id
