"""Makes events for webhooks from records of the turns, notices and feedback topics. Pure.

`id` is the same each time that a record comes, also in a replay, so that receivers can drop duplicates.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pipeline.policies.webhooks import FEEDBACK_GIVEN, TURN_COMPLETED, TURN_INTERRUPTED, Event, body, lane_of
from pipeline.stores.database.keys import key_of
from pipeline.turns.times import iso
from topics import json_text
from topics.feedback import FeedbackRecord
from topics.notice import NoticeRecord
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

MAX_TURN_BYTES: Final = 65_536  # larger turns are not included in their events
NAMED: Final = ("tenant", "thread_id", "run_id", "turn_id", "agent_id", "dialect", "status", "revision", "events")


def turn_event(record: TurnRecord, position: tuple[str, int, int], at: int) -> Event | None:
    """Return the event of a turn that ended; None for a record that only states facts, or is imported.

    `at`: the broker's time of the record, epoch ms.
    """
    if record["turn"] is None or record.get("imported"):
        return None
    kind = TURN_COMPLETED if record["status"] == "complete" else TURN_INTERRUPTED
    data: dict[str, Any] = {name: record[name] for name in NAMED if record.get(name) is not None}
    external = (record.get("thread") or {}).get("external_id")
    if external is not None:
        data["external_id"] = external
    small = len(json_text.dumps(record["turn"])) <= MAX_TURN_BYTES
    data["turn"] = record["turn"] if small else None
    tenant = record.get("tenant")
    version = (tenant, record["thread_id"], record["turn_id"], record["status"], record["events"], record["revision"])
    digest = hashlib.sha256(repr(version).encode("utf-8", "backslashreplace")).hexdigest()
    key, payload = key_of(record), _body(kind, at, data)
    return Event(f"turn_{digest[:32]}", kind, tenant, lane_of(tenant, key.thread_id), at, payload, position, key)


def notice_event(record: NoticeRecord, position: tuple[str, int, int], at: int) -> Event:
    """Return the event of a notice."""
    tenant, thread = record.get("tenant"), record.get("thread_id")
    data = {name: value for name, value in (("tenant", tenant), ("thread_id", thread)) if value is not None}
    lane = lane_of(tenant, thread or str(record["data"].get("budget") or record["type"]))
    payload = _body(record["type"], record["at"], {**data, **record["data"]})
    return Event(record["id"], record["type"], tenant, lane, at, payload, position)


def feedback_event(record: FeedbackRecord, position: tuple[str, int, int], at: int) -> Event:
    """Return the event of feedback on a thread; a value of null withdraws it."""
    tenant, key = record.get("tenant"), ThreadKey.of(record["thread_id"], record.get("tenant"))
    data = {name: value for name, value in record.items() if name != "v"}
    digest = hashlib.sha256(json_text.dumps(record).encode()).hexdigest()
    payload = _body(FEEDBACK_GIVEN, at, data)
    return Event(
        f"said_{digest[:32]}", FEEDBACK_GIVEN, tenant, lane_of(tenant, key.thread_id), at, payload, position, key
    )


def _body(kind: str, at: int, data: dict[str, Any]) -> bytes:
    try:
        return body(kind, iso(at), data)
    except TypeError:  # lone surrogates, integers over 64 bits, deep nesting
        return json_text.dumps({"type": kind, "timestamp": iso(at), "data": data}).encode()
