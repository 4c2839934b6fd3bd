"""The valid rows of the lake: of each turn the rows of the record that ranks highest. Pure.

Tables of turns and of usage are merged alike: their rows name a turn (`KEY`) and contain the rank of their record
(`RANK`); all rows of a turn are added and removed together. The rank is pipeline.turns.thread_document.rank.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.turns.thread_document import GIVEN_UP

KEY: Final = ("thread_id", "tenant", "turn_id")
RANK: Final = ("events", "status", "revision", "interruption", "digest")

Key = tuple[str, str, str]
Rank = tuple[int, bool, int, bool, str]

ABOVE_ALL: Final[Rank] = (2**63, True, 2**63, True, "")  # of erased turns: it removes all their rows


def keys(table: pa.Table) -> list[Key]:
    """Return the turn of each row; the tenant is '' where there is none."""
    return [(thread, tenant or "", turn) for thread, tenant, turn in _rows(table, KEY)]


def ranks(table: pa.Table) -> list[Rank]:
    """Return the rank of each row's record."""
    return [
        (events, status == "complete", revision, reason not in GIVEN_UP, digest)
        for events, status, revision, reason, digest in _rows(table, RANK)
    ]


def highest(tables: Iterable[pa.Table], known: Mapping[Key, Rank] | None = None) -> dict[Key, Rank]:
    """Return the highest rank of each turn, in these tables and in `known`."""
    best = dict(known or {})
    for table in tables:
        for key, rank in zip(keys(table), ranks(table), strict=True):
            if key not in best or rank > best[key]:
                best[key] = rank
    return best


def of_turns(table: pa.Table, turns: Iterable[Key]) -> pa.Table:
    """Return the rows that may be of these turns: those with any of their turn ids."""
    return table.filter(_may_be_of(table, turns))


def has_lower(table: pa.Table, best: Mapping[Key, Rank]) -> bool:
    """Return True if a row ranks lower than the best of its turn."""
    return bool(_lower(table, best))


def without_lower(table: pa.Table, best: Mapping[Key, Rank]) -> pa.Table:
    """Return the table without the rows that rank lower than the best of their turn."""
    gone = _lower(table, best)
    if not gone:
        return table
    stays = [True] * table.num_rows
    for index in gone:
        stays[index] = False
    return table.filter(pa.array(stays))


def unknown(table: pa.Table, held: Iterable[pa.Table], best: Mapping[Key, Rank]) -> pa.Table:
    """Return the rows to be added: those with the best rank of their turn, unless a table of `held` has it already."""
    there = {
        (key, rank) for rows in held for key, rank in zip(keys(rows), ranks(rows), strict=True) if rank == best.get(key)
    }
    wanted = [
        rank == best[key] and (key, rank) not in there for key, rank in zip(keys(table), ranks(table), strict=True)
    ]
    return table.filter(pa.array(wanted, pa.bool_()))


def doubles(table: pa.Table) -> dict[Key, Rank]:
    """Return the best rank of each turn that has rows of several ranks."""
    counts = table.select([*KEY, *RANK]).group_by([*KEY, *RANK]).aggregate([])
    ids = pc.value_counts(counts["turn_id"])
    often = ids.filter(pc.greater(ids.field("counts"), 1)).field("values")
    some = counts.filter(pc.is_in(counts["turn_id"], value_set=often))
    seen: dict[Key, int] = {}
    for key in keys(some):
        seen[key] = seen.get(key, 0) + 1
    return {key: rank for key, rank in highest([some]).items() if seen[key] > 1}


def _lower(table: pa.Table, best: Mapping[Key, Rank]) -> list[int]:
    """Return the indexes of rows that rank lower than the best of their turn."""
    mask = _may_be_of(table, best)
    some = table.select([*KEY, *RANK]).filter(mask)
    places = pc.indices_nonzero(mask).to_pylist()
    return [
        index for index, key, rank in zip(places, keys(some), ranks(some), strict=True) if rank < best.get(key, rank)
    ]


def _may_be_of(table: pa.Table, turns: Iterable[Key]) -> pa.ChunkedArray:
    wanted = pa.array(sorted({turn_id for _, _, turn_id in turns}), table["turn_id"].type)
    return pc.is_in(table["turn_id"], value_set=wanted)


def _rows(table: pa.Table, names: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)
