"""The records of a batch that the store accepts: those that remove no stored event.

A version of a run is compared with the stored turns of that run (`pipeline.turns.event_coverage`): with the turn that
it would replace, and with the run's first turns, which stand for what the store has of the run. So a version that lacks
stored events, and has events that the stored turns lack, is late as a whole: that includes turns that would be new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.sending import portions, send
from pipeline.stores.threads import lookups, statements
from pipeline.stores.threads.rows import RecordRows, ThreadRow, TurnKey, rank_of, record_of
from pipeline.turns.event_coverage import Ranges, Verdict, Version, ranges_of
from topics.thread_key import ThreadKey

Batch = Mapping[int, RecordRows]  # records of a batch by their index in it, ascending


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored turn: its id in the database, and its version, with empty ranges if they are not needed."""

    id: int
    version: Version


def taken(batch: Batch, known: Mapping[TurnKey, Version]) -> tuple[dict[TurnKey, RecordRows], list[int]]:
    """Return the records to be stored, by turn, and indexes of late records; `known`: the families' stored turns."""
    stored, winners, late = dict(known), dict[TurnKey, RecordRows](), list[int]()
    for index, rows in batch.items():
        version = rows.version
        verdict = _verdict(version, stored.get(rows.key), [stored[key] for key in rows.family if key in stored])
        if verdict is Verdict.REPLACES:
            stored[rows.key], winners[rows.key] = version, rows
        elif verdict is Verdict.LATE:
            late.append(index)
    return winners, late


def _verdict(version: Version, stored: Version | None, family: Sequence[Version]) -> Verdict:
    """Compare a version with the `stored` version of its turn, and `family`: that and the run's first turns."""
    if stored is not None and (version.rank == stored.rank or version.beside(stored) is Verdict.KNOWN):
        return Verdict.KNOWN
    if any(version.beside(other) is Verdict.LATE for other in family):
        return Verdict.LATE
    if stored is None and version.headless and not all(version.contains(other) for other in family):
        return Verdict.KNOWN  # the end of a stored run, cut into other turns
    return Verdict.REPLACES


async def known_versions(
    connection: AsyncConnection, batch: Batch, threads: Mapping[ThreadKey, ThreadRow]
) -> dict[TurnKey, Stored]:
    """Return the stored turns in the batch's families, with empty ranges where nothing has to be compared."""
    places = {row.id: key for key, row in threads.items() if row.newest is not None}
    there = {*places.values()}
    wanted = {key for rows in batch.values() for key in rows.family if key[0] in there}
    if not wanted:
        return {}
    [turns] = await send(connection, [lookups.known_turns(connection.dialect.name, wanted, dict(threads))])
    known = {
        (places[thread], bytes(turn_id)): Stored(id_, Version((), rank_of(events, status, revision, bytes(digest))))
        for thread, turn_id, id_, events, status, revision, digest in turns
    }

    def same(rows: RecordRows) -> bool:
        return rows.key in known and known[rows.key].version.rank == rows.version.rank

    changing = [rows for rows in batch.values() if not same(rows)]
    compared = {key for rows in changing for key in rows.family if key in known}
    ranges = await _ranges(connection, {known[key].id for key in compared})
    return known | {
        key: Stored(known[key].id, Version(ranges[known[key].id], known[key].version.rank)) for key in compared
    }


async def _ranges(connection: AsyncConnection, ids: set[int]) -> dict[int, Ranges]:
    """Return the ranges of events of these turns."""
    by_id: dict[int, Ranges] = {}
    for some in portions(sorted(ids)):
        for id_, record in await connection.execute(statements.records_by_id(some)):
            by_id[id_] = ranges_of(record_of(record))
    return by_id
