"""Conversion of turn records to rows of the archive, and to Parquet. Pure.

A row is a turn record: columns for the fields that queries need, the turn and the rest as JSON text, as in the store.
"""

import hashlib
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.archive.turn_archive import EPOCH, Entry, Expired, Held, Refusal, never
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.keys import key_of
from pipeline.stores.threads.rows import RecordRows, Row, record_rows
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import digest, interruption
from pipeline.turns.tokens import COUNTS
from topics import json_text, turn_record
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord

MEDIA_TYPE: Final = "application/vnd.apache.parquet"
ROLES: Final = ("user", "agent", "facts")
TIME: Final = pa.timestamp("ms", tz="UTC")
LAST_MS: Final = 253_402_300_799_999  # of the year 9999
SUMS: Final = ("requests", *COUNTS)
NEAR: Final = timedelta(days=1)  # between the day on which a turn began and the day on which it was recorded
OWN_COLUMNS: Final = (
    *("thread_id", "turn_id", "run_id", "ordinal", "agent_id", "tenant", "dialect", "status", "interruption"),
    *("revision", "events", "digest", "hash", "external_id", "title"),
)
OF_TURN: Final = ("run_id", "ordinal", "revision", "events", "external_id", "title")  # as in the store's table of turns

SCHEMA: Final = pa.schema(
    [
        *(
            pa.field(name, pa.int64() if name in ("ordinal", "revision", "events") else pa.string())
            for name in OWN_COLUMNS
        ),
        pa.field("role", pa.string()),
        pa.field("started_at", TIME),
        pa.field("ended_at", TIME),
        pa.field("model", pa.string()),
        pa.field("provider", pa.string()),
        *(pa.field(name, pa.int64()) for name in SUMS),
        pa.field("cost_nano_usd", pa.int64()),
        pa.field("ttft_ms", pa.int64()),
        pa.field("duration_ms", pa.int64()),
        pa.field("document", pa.string()),
        pa.field("facts", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("recorded_at", TIME),
    ]
)


class Part(NamedTuple):
    """The rows of a segment in an object, by the day on which the turns began.

    `owner`: as `owner_of`, if all rows are of the same tenant; "": of any.

    Turns that were recorded near that day share an object. Others, which may claim any day, have an object per tenant:
    so a tenant that claims thousands of days adds no object that an erasure for another tenant must read.
    """

    day: date
    owner: str = ""


def owner_of(tenant: str | None) -> str:
    """Return 16 hex digits for a tenant, also for none."""
    return hashlib.sha256((column_text(tenant) or "").encode()).hexdigest()[:16]


async def sparing(expired: Expired, old: Collection[ThreadKey], held: Held | None) -> Expired | None:
    """Return a rule that keeps held threads, if some of the `old` threads are held; None otherwise."""
    stay = await held(set(old)) if old and held is not None else set[ThreadKey]()
    return (lambda thread, ended_at: thread not in stay and expired(thread, ended_at)) if stay else None


def tables(
    partition: int, entries: Iterable[Entry], expired: Expired = never, prices: Prices = NONE
) -> tuple[dict[Part, pa.Table], list[Refusal], list[ThreadKey]]:
    """Return the tables of the segment's parts, the refused records, and the threads of expired records."""
    rows: dict[Part, list[Row]] = {}
    refused: list[Refusal] = []
    old: list[ThreadKey] = []
    for row, parts in parsed(partition, entries, refused, old, expired, prices):
        day = day_of(parts.turn["started_at"])
        near = abs(day - day_of(row["recorded_at"])) <= NEAR
        rows.setdefault(Part(day, "" if near else owner_of(parts.thread.tenant)), []).append(row)
    by_part = {part: _table(some, refused) for part, some in rows.items()}
    return {part: table for part, table in by_part.items() if table.num_rows}, refused, old


def parsed(
    partition: int,
    entries: Iterable[Entry],
    refused: list[Refusal],
    old: list[ThreadKey],
    expired: Expired = never,
    prices: Prices = NONE,
) -> Iterator[tuple[Row, RecordRows]]:
    """Yield each record's rows in archive and store; add to `refused`, and expired threads to `old`."""
    for entry in entries:
        try:
            parts = record_rows(turn_record.decode(entry.value), None, prices)
            if expired(parts.thread, parts.turn["ended_at"]):
                old.append(parts.thread)
                continue
            row = _row(parts) | {"partition": partition, "offset": entry.offset, "recorded_at": entry.at}
            day_of(parts.turn["started_at"])
        except InvalidRecord as error:
            refused.append(Refusal(entry.offset, error.detail))
        except Exception as error:  # an unknown shape: the store role makes a dead letter of it
            refused.append(Refusal(entry.offset, f"{type(error).__name__}: {error}"))
        else:
            yield row, parts


def _table(rows: Sequence[Row], refused: list[Refusal]) -> pa.Table:
    """Return a table of rows; rows that fit no column go to `refused`: then each row is converted separately."""
    try:
        return pa.Table.from_pylist(rows, schema=SCHEMA)
    except Exception as error:  # a type or size that Arrow can't represent
        if len(rows) == 1:
            refused.append(Refusal(rows[0]["offset"], f"{type(error).__name__}: {error}"))
            return SCHEMA.empty_table()
        return pa.concat_tables([_table([row], refused) for row in rows])


def without(table: pa.Table, erased: Collection[ThreadKey]) -> pa.Table:
    """Return the table without the rows of these threads."""
    if not erased:
        return table
    named = {(key.thread_id, column_text(key.tenant) or "") for key in erased}
    may = pc.is_in(table["thread_id"], value_set=pa.array(sorted({thread_id for thread_id, _ in named}), pa.string()))
    places = pc.indices_nonzero(may)
    some = table.select(["thread_id", "tenant"]).take(places)
    pairs = zip(some["thread_id"].to_pylist(), some["tenant"].to_pylist(), strict=True)
    stays = [True] * table.num_rows
    for index, (thread_id, tenant) in zip(places.to_pylist(), pairs, strict=True):
        stays[index] = (thread_id, tenant or "") not in named
    return table.filter(pa.array(stays, pa.bool_()))


def threads(table: pa.Table) -> list[ThreadKey]:
    """Return the table's threads, each once."""
    pairs = pa.table([table["thread_id"], table["tenant"]], ["thread_id", "tenant"])
    names = pairs.group_by(["thread_id", "tenant"]).aggregate([]).to_pylist()
    return [_exact(table, ThreadKey.of(row["thread_id"], row["tenant"])) for row in names]


def of_expired(
    table: pa.Table, before: Mapping[ThreadKey, int], ends: str = "ended_at"
) -> tuple[list[int], set[ThreadKey]]:
    """Return indexes and threads of rows that ended before the thread's time; `ends`: the column with their end."""
    known = {(key.thread_id, column_text(key.tenant) or ""): (key, end) for key, end in before.items()}
    places, keys = [], set()
    times = table[ends].cast(TIME, safe=False).cast(pa.int64()).to_pylist()
    for index, (thread_id, tenant, at) in enumerate(
        zip(table["thread_id"].to_pylist(), table["tenant"].to_pylist(), times, strict=True)
    ):
        key, end = known.get((thread_id, tenant or ""), (None, 0))
        if key is not None and (at or 0) < end:
            places.append(index)
            keys.add(key)
    return places, keys


def without_expired(table: pa.Table, before: Mapping[ThreadKey, int], ends: str = "ended_at") -> pa.Table:
    """Return the table without expired rows."""
    gone = set(of_expired(table, before, ends)[0])
    return table.filter(pa.array([index not in gone for index in range(table.num_rows)], pa.bool_()))


def holds_tenant(table: pa.Table, tenant: str) -> bool:
    """Return True if the table has a row of this tenant, "" for none."""
    return bool(pc.any(pc.equal(pc.fill_null(table["tenant"], ""), column_text(tenant) or "")).as_py())


def threads_of(table: pa.Table, tenant: str) -> set[ThreadKey]:
    """Return the tenant's threads."""
    mine = table.filter(pc.equal(pc.fill_null(table["tenant"], ""), column_text(tenant) or ""))
    return {ThreadKey.of(thread_id, tenant) for thread_id in pc.unique(mine["thread_id"]).to_pylist()}


def _exact(table: pa.Table, key: ThreadKey) -> ThreadKey:
    """Return a thread's key with its whole tenant: the column may have a hash instead, but the record has it all."""
    if column_text(key.tenant) == key.tenant:
        return key
    same = pc.and_(pc.equal(table["thread_id"], key.thread_id), pc.equal(table["tenant"], key.tenant))
    return key_of(json_text.loads(table.filter(same)["facts"][0].as_py()))


def encode(table: pa.Table) -> bytes:
    """Return a Parquet file."""
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def decode(file: Any, columns: list[str] | None = None) -> pa.Table:
    """Return a Parquet file, bytes or seekable, or some columns of it, as a table. Raises ArrowInvalid."""
    return pq.ParquetFile(io.BytesIO(file) if isinstance(file, bytes) else file).read(columns)


def _row(parts: RecordRows) -> Row:
    record, turn, usage = parts.record, parts.turn, parts.usage
    first = usage[0] if usage else {}
    took = [row["duration_ms"] for row in usage if row["duration_ms"] is not None]
    facts = {key: value for key, value in record.items() if key != "turn"}
    return {
        **{name: turn[name] for name in OF_TURN},
        "thread_id": parts.thread.thread_id,
        "turn_id": record["turn_id"],
        "agent_id": column_text(record["agent_id"]),
        "tenant": column_text(parts.thread.tenant),
        "dialect": column_text(record.get("dialect", "")),
        "status": record["status"],
        "interruption": column_text(interruption(record)),
        "digest": digest(record),
        "hash": record.get("hash"),
        "role": ROLES[turn["role"]],
        "started_at": time_or_none(turn["started_at"]),
        "ended_at": time_or_none(turn["ended_at"]),
        "model": first.get("model"),
        "provider": first.get("provider"),
        **{name: _sum(row[name] for row in usage) for name in (*SUMS, "cost_nano_usd")},
        "ttft_ms": first.get("ttft_ms"),
        "duration_ms": _sum(took),
        "document": None if record["turn"] is None else json_text.dumps(record["turn"]),
        "facts": json_text.dumps(facts),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(sum(known), MAX_INTEGER) if known else None


def time_or_none(at: int) -> int | None:
    """Return a time in epoch ms; None if it is out of the column's range."""
    return at if 0 <= at <= LAST_MS else None


def day_of(at: int) -> date:
    """Return the day (UTC) of a time in epoch ms; EPOCH if it is out of the column's range."""
    return datetime.fromtimestamp(at / 1000, UTC).date() if 0 <= at <= LAST_MS else EPOCH
