"""Plays back to a store from a backup what was revoked, held, erased or given since: facts, and feedback."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import delete, insert, select, text

from pipeline.kafka.reading import bounds_of, read_once, records_of
from pipeline.stores.database.ids import COUNTER
from pipeline.stores.database.schema import NOTED, erased, notices
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from topics import feedback, notice
from topics.catalog import FACTS, FEEDBACK
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.settings import BrokerSettings

Fact = dict[str, Any]  # `data` of a notice `store.changed`
# Else the store would give the numbers since its backup again.
GO_ON: Final = {
    "postgresql": f"SELECT setval('{COUNTER}', greatest(:n, nextval('{COUNTER}')))",
    "sqlite": f"UPDATE {COUNTER} SET last = max(last, :n)",  # noqa: S608  # our own name
}


async def newest_facts(settings: BrokerSettings, store: ThreadStore) -> list[Fact]:
    """Return the newest fact of each row, from the topic, and from what waits in the store. Raises BrokerError."""
    told = [row.record for row in await store.rows(select(notices.c.record))]
    async for record in records_of(settings, FACTS):
        with suppress(InvalidRecord):
            told.append(notice.decode(record.value))
    facts = [each["data"] for each in told if each["type"] == notice.STORE_CHANGED]
    return list({(fact["table"], fact["key"]): fact for fact in sorted(facts, key=lambda fact: fact["n"])}.values())


async def contradicted(store: ThreadStore, newest: Sequence[Fact]) -> list[Fact]:
    """Return those of these facts that the store does not agree with."""
    wrong = list[Fact]()
    for table, (key, changed) in NOTED.items():
        stored = {row[0]: row[1] for row in await store.rows(select(table.c[key], table.c[changed]))}
        told = (fact for fact in newest if fact["table"] == table.name)
        wrong += [fact for fact in told if stored.get(fact["key"]) != (fact["row"] or {}).get(changed)]
    return wrong


async def restore(
    settings: BrokerSettings,
    store: ThreadStore,
    erase: Callable[[list[ThreadKey]], Awaitable[object]],
    forget_tenant: Callable[[str], Awaitable[None]],
) -> Counter[str]:
    """Play facts and feedback back; return the number of rows that were wrong, by table, and of feedback read.

    Nothing else may write to the store. Raises BrokerError and StoreError; the same call then begins again: marks of
    erasures, by which it knows what is still to be erased, come last.
    """
    newest = await newest_facts(settings, store)
    async with store.writing() as connection:
        last = max((fact["n"] for fact in newest), default=0)
        await connection.execute(text(GO_ON[connection.dialect.name]), {"n": last})
    wrong = await contradicted(store, newest)
    marks = [fact for fact in wrong if fact["table"] == erased.name]
    gone = [ThreadKey.of(*fact["row"]["name"]) for fact in marks if fact["row"]]
    for key in gone:
        if not key.thread_id:
            await forget_tenant(key.tenant or "")
    # A second look: some of these rows were made after their tenant had been erased.
    await _apply(store, [fact for fact in await contradicted(store, newest) if fact not in marks])
    await erase([key for key in gone if key.thread_id])
    await _apply(store, marks)
    rows = [fact["row"] for fact in newest if fact["table"] == erased.name and fact["row"]]
    ended = {row["name"][1]: row["erased_at"] for row in rows if not row["name"][0]}
    return Counter(fact["table"] for fact in wrong) + Counter({FEEDBACK.name: await _give_back(settings, store, ended)})


async def _apply(store: ThreadStore, newest: Iterable[Fact]) -> None:
    """Make the rows as these facts have them."""
    tables = {table.name: table for table in NOTED}
    async with store.writing() as connection:
        for fact in newest:
            table = tables[fact["table"]]
            await connection.execute(delete(table).where(table.c[NOTED[table][0]] == fact["key"]))
            if row := fact["row"]:
                known = {name: value for name, value in row.items() if name in table.c}
                await connection.execute(insert(table).values(known))


async def _give_back(settings: BrokerSettings, store: ThreadStore, ended: dict[str | None, int]) -> int:
    """Store feedback again, but not a tenant's from before its erasure, `ended`; return the number of records."""
    given = 0
    async for _, records in read_once(settings, await bounds_of(settings, FEEDBACK)):
        received = []
        for record in records:
            with suppress(InvalidRecord):
                judgement = feedback.decode(record.value)
                if record.timestamp > ended.get(judgement.get("tenant"), 0):
                    received.append(ReceivedFeedback(judgement, record.timestamp, record.offset))
        await add_feedback(store, received)
        given += len(received)
    return given
