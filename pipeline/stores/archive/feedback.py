"""Feedback in the archive: Parquet objects under ROOT/feedback, beside the objects or tables of turns.

ROOT/feedback/day=2026-01-20/TOPIC-PARTITION-BEGIN-END.parquet contains the day's feedback records, by the broker's
time, as on the topic: of each id, readers take the last record, unless it retracts the feedback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from typing import Any, Final

import pyarrow as pa

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.archive.parquet import FEEDBACK, SUFFIX, Archive
from pipeline.stores.archive.records import EPOCH, Entry, Expired, Refusal, never
from pipeline.stores.archive.segments import TIME, Part, day_of, time_or_none
from pipeline.stores.threads.feedback import thread_of
from pipeline.turns.column_text import column_text
from topics import feedback, json_text
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord

TEXTS: Final = ("thread_id", "tenant", "id", "name", "turn_id", "run_id", "comment", "by")
SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in TEXTS),
        pa.field("message", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("said_at", TIME),
        pa.field("facts", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("recorded_at", TIME),
    ]
)


class FeedbackArchive(Archive):
    """See `TurnArchive`; a row expires by the time at which it was recorded."""

    folder = f"/{FEEDBACK}"
    schema = SCHEMA
    ends = "recorded_at"

    @staticmethod
    def tables(
        partition: int, entries: Iterable[Entry], expired: Expired = never, _: Prices = NONE
    ) -> tuple[dict[Part, pa.Table], list[Refusal], list[ThreadKey]]:
        """Return the tables of a segment's days, the refused records, and the thread of each expired one."""
        rows: dict[Part, list[dict[str, Any]]] = {}
        refused: list[Refusal] = []
        old: list[ThreadKey] = []
        for entry in entries:
            try:
                record = feedback.decode(entry.value)
            except InvalidRecord as error:
                refused.append(Refusal(entry.offset, error.detail))
                continue
            if expired(thread_of(record), entry.at):
                old.append(thread_of(record))
                continue
            row = _row(record) | {"partition": partition, "offset": entry.offset, "recorded_at": time_or_none(entry.at)}
            rows.setdefault(Part(day_of(entry.at)), []).append(row)
        return {part: pa.Table.from_pylist(some, schema=SCHEMA) for part, some in rows.items()}, refused, old

    async def names_of(self, days: Collection[date]) -> list[str]:
        """Return the objects that may contain feedback on turns of these days, which may be given at any later time."""
        first = f"{self.root}/day={min({*days} - {EPOCH}, default=EPOCH).isoformat()}"
        return [uri async for uri in self.objects.names_under(self.root) if uri >= first and uri.endswith(SUFFIX)]


def _row(record: FeedbackRecord) -> dict[str, Any]:
    value = record["value"]
    return {
        **{name: column_text(record.get(name)) for name in TEXTS},
        "message": record.get("message"),
        "value": None if value is None else json_text.dumps(value),
        "number": float(value) if isinstance(value, bool | int | float) else None,
        "said_at": time_or_none(record["at"]),
        "facts": json_text.dumps(record),
    }
