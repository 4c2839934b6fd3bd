"""Which records of a batch the store takes: those that take no event away from what is stored.

A version of a run is compared with the stored turns of that run (`pipeline.turns.held_events`): with the turn that it
would replace, and with the run's first turns, which stand for what the store has of the run. So a version whose events
the stored ones lack, and that lacks events of theirs, is late as a whole: turns that would be new are no exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores import statements
from pipeline.stores.keys import newer_text
from pipeline.stores.rows import Key, RecordRows, record_of
from pipeline.stores.sending import of_texts, send
from pipeline.turns.held_events import Ranges, Verdict, Version, ranges_of
from pipeline.turns.thread_document import Rank

KEYS_AT_ONCE: Final = 1000  # in one IN list; drivers take some 32,000 parameters a statement

Batch = Mapping[int, RecordRows]  # records of a batch by their place in it, ascending
T = TypeVar("T")


def taken(batch: Batch, known: Mapping[Key, Version]) -> tuple[dict[Key, RecordRows], list[int]]:
    """-> of each turn that changes the record that is to be stored, and the places of late records.

    `known`: of the stored turns those in the batch's families. Records are taken one after the other, so that it makes
    no difference how they are cut into batches.
    """
    stored, winners, late = dict(known), dict[Key, RecordRows](), list[int]()
    for place, rows in batch.items():
        version = rows.version
        verdict = _verdict(version, stored.get(rows.key), [stored[key] for key in rows.family if key in stored])
        if verdict is Verdict.REPLACES:
            stored[rows.key], winners[rows.key] = version, rows
        elif verdict is Verdict.LATE:
            late.append(place)
    return winners, late


def _verdict(version: Version, own: Version | None, family: Sequence[Version]) -> Verdict:
    """`own`: the stored version of the same turn; `family`: that, and those of the run's first turns."""
    if own is not None and (version.rank == own.rank or version.beside(own) is Verdict.KNOWN):
        return Verdict.KNOWN
    if any(version.beside(one) is Verdict.LATE for one in family):
        return Verdict.LATE
    if own is None and version.headless and not all(version.contains(one) for one in family):
        return Verdict.KNOWN  # the end of a run that is stored already, cut into other turns
    return Verdict.REPLACES


async def known_versions(connection: AsyncConnection, batch: Batch, *, moving: bool = False) -> dict[Key, Version]:
    """The stored turns in the families of a batch; with empty ranges where nothing but the same records comes.
    `moving`: the batch comes from rows of an older version, and such rows are not looked at.
    """
    ranks: dict[Key, dict[str, Rank]] = {}  # of each turn by `thread_key`: it may have a row of either version
    turn_ids = sorted({turn_id for rows in batch.values() for _, turn_id in rows.family})
    [known] = await send(connection, [of_texts(connection.dialect.name, statements.known_turns, turn_ids)])
    if not known:  # nearly always
        return {}
    for text, tenant, turn_id, events, *decides in known:
        key = newer_text(text, tenant), turn_id
        if text == key[0] or not moving:
            ranks.setdefault(key, {})[text] = (events, (*decides,))
    changing = [rows for rows in batch.values() if {*ranks.get(rows.key, {}).values()} != {rows.version.rank}]
    ranges = await _ranges(connection, {key for rows in changing for key in rows.family if key in ranks})
    return {
        key: _standing(key, {text: Version(ranges.get((text, key[1]), ()), rank) for text, rank in own.items()})
        for key, own in ranks.items()
    }


def _standing(key: Key, versions: Mapping[str, Version]) -> Version:
    """Which of the stored versions of a turn a new record is compared with: the one at the key of this version, or that
    would be there if the older row had been moved.
    """
    newer, older = versions.get(key[0]), [version for text, version in versions.items() if text != key[0]]
    if newer is None:
        return older[0]
    return next((one for one in older if one.beside(newer) is Verdict.REPLACES), newer)


async def _ranges(connection: AsyncConnection, keys: set[Key]) -> dict[Key, Ranges]:
    """The ranges of all rows of some turns, by the columns `thread_key` and `turn_id`."""
    found: dict[Key, Ranges] = {}
    query = statements.facts_of(sorted({turn_id for _, turn_id in keys}))
    for text, turn_id, facts in (await connection.execute(query)).all() if keys else ():
        document = None
        if "ranges" not in facts and facts.get("status") == "interrupted":  # an older version's: its turn has them
            document = await connection.scalar(statements.document_of(text, turn_id))
        found[text, turn_id] = ranges_of(record_of(facts, document))
    return found


def portions(items: Sequence[T], size: int = KEYS_AT_ONCE) -> Iterator[Sequence[T]]:
    """The items in lists that fit into one statement."""
    return (items[start : start + size] for start in range(0, len(items), size))
