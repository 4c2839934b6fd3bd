"""Records of the turns topic -> rows of the lake's two tables. Pure.

`turns` has a row for each turn, with the columns of the Parquet archive. `usage` has a row for each response of an
agent, with the columns of the store's table; it carries the rank of its turn's record, and is replaced with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.archive import lake_merge, segments
from pipeline.stores.archive.lake_merge import Key, Rank
from pipeline.stores.archive.turn_archive import Entry, Expired, Refusal, never
from pipeline.stores.threads.rows import RecordRows, Row
from pipeline.turns.requests import prompt_of
from topics.thread_key import ThreadKey

TIME: Final = pa.timestamp("us", tz="UTC")  # Iceberg has no milliseconds
TURNS: Final = pa.schema(
    [pa.field(field.name, TIME if pa.types.is_timestamp(field.type) else field.type) for field in segments.SCHEMA]
)
OF_TURN: Final = (
    *("thread_id", "turn_id", "run_id", "tenant", "dialect", "status", "interruption", "revision", "events", "digest"),
    *("started_at", "ended_at", "partition", "offset", "recorded_at"),
)  # columns that rows of usage take from their turn
OF_RESPONSE: Final = (
    *("position", "agent_id", "model", "provider", "finish_reason", "at", "requests", "turns", "interrupted", "errors"),
    *(name for name in segments.SUMS if name != "requests"),
    *("cost_nano_usd", "cost_kind", "computed_nano_usd", "price_source", "service_tier", "purpose"),
    *("ttft_ms", "duration_ms"),
)
PROMPT: Final = "prompt"  # the hash of system prompt and tools, as reports of usage have it

TEXTS: Final = ("agent_id", "model", "provider", "finish_reason", "price_source", "service_tier", "purpose")
USAGE: Final = pa.schema(
    [
        *(TURNS.field(name) for name in OF_TURN),
        *(
            pa.field(name, pa.string() if name in TEXTS else TIME if name == "at" else pa.int64())
            for name in OF_RESPONSE
        ),
        pa.field(PROMPT, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of rows: of each turn the rows of its newest record, and that record's rank.

    `days`: on which the turns began (UTC; None: no known time); `refused`: the records that are not turn records;
    `expired`: the thread of each record that has expired.
    """

    turns: pa.Table
    usage: pa.Table
    ranks: Mapping[Key, Rank]
    days: Collection[date | None] = ()
    refused: tuple[Refusal, ...] = ()
    expired: tuple[ThreadKey, ...] = ()

    def without(self, erased: Collection[ThreadKey]) -> Batch:
        """Return the batch without these threads; their turns rank highest, so that merging removes stored rows."""
        if not erased:
            return self
        turns, usage = segments.without(self.turns, erased), segments.without(self.usage, erased)
        ranks = dict.fromkeys(self.ranks, lake_merge.ABOVE_ALL) | lake_merge.highest([turns])
        return Batch(turns, usage, ranks, self.days, self.refused, self.expired)


def batch(partition: int, entries: Iterable[Entry], expired: Expired = never, prices: Prices = NONE) -> Batch:
    """Return the rows of a partition's records, without expired turns."""
    refused: list[Refusal] = []
    old: list[ThreadKey] = []
    turns, usage = _tables(list(segments.parsed(partition, entries, refused, old, expired, prices)), refused)
    ranks = lake_merge.highest([turns])
    newest: dict[Key, int] = {}
    for key, rank, offset in zip(
        lake_merge.keys(turns), lake_merge.ranks(turns), turns["offset"].to_pylist(), strict=True
    ):
        if rank == ranks[key]:
            newest.setdefault(key, offset)
    chosen = pa.array(sorted(newest.values()), pa.int64())
    turns, usage = (table.filter(pc.is_in(table["offset"], value_set=chosen)) for table in (turns, usage))
    days = turns["started_at"].cast(pa.date32()).unique().to_pylist()
    return Batch(turns, usage, ranks, days, tuple(refused), tuple(old))


def _tables(records: Sequence[tuple[Row, RecordRows]], refused: list[Refusal]) -> tuple[pa.Table, pa.Table]:
    """Return the tables; rows that fit no column go to `refused`. Converts records separately if all at once fails."""
    bodies = {name: body for _, parts in records for name, body in parts.requests.items()}
    try:
        prompts = {name: prompt_of(body) for name, body in bodies.items()}
        turns = pa.Table.from_pylist([turn for turn, _ in records], schema=segments.SCHEMA).cast(TURNS)
        return turns, pa.Table.from_pylist(
            [
                _usage(turn, row) | {PROMPT: prompts.get(row["request"])}
                for turn, parts in records
                for row in parts.usage
            ],
            schema=USAGE,
        )
    except Exception as error:  # a type or size that Arrow can't represent
        if len(records) == 1:
            refused.append(Refusal(records[0][0]["offset"], f"{type(error).__name__}: {error}"))
            return TURNS.empty_table(), USAGE.empty_table()
        each = [_tables([record], refused) for record in records]
        return pa.concat_tables([turns for turns, _ in each]), pa.concat_tables([usage for _, usage in each])


def _usage(turn: Row, row: Row) -> Row:
    times = {name: _us(turn[name]) for name in ("started_at", "ended_at", "recorded_at")}
    response = {name: row[name] for name in OF_RESPONSE} | {"at": _us(segments.time_or_none(row["at"]))}
    return {name: turn[name] for name in OF_TURN} | times | response


def _us(ms: int | None) -> int | None:
    return None if ms is None else ms * 1000
