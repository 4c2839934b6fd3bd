"""The telemetry topic: one record is one `data-sys-*` event and the run it belongs to.

(thread_id, run_id, seq) identifies an event: a replay writes the same record again. Tokens that a turn gets from other
sources than `data-sys-usage` events (a result object, a `done` event) are written as such an event with
`derived: true` when the turn closes, so that a consumer of metrics sees every token exactly once.

If a budget stops runs, or asks, OPEN_USAGE reports what each response of a run which is still open has used:
`{"used": […]}`.
"""

from typing import Any, NotRequired, TypedDict

from topics import json_text
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import OWN_LEVELS
from turnmill.wire.envelope import loads

VERSION = 1
OPEN_USAGE = "data-sys-open-usage"


class TelemetryRecord(TypedDict):
    """Value of the telemetry topic; the key is thread_id."""

    v: int
    thread_id: str
    run_id: str
    agent_id: str
    dialect: str
    seq: int  # of the event in its run; derived records continue after the last event
    ts: int  # epoch ms
    type: str  # data-sys-usage, data-sys-latency, data-sys-cache_hit, data-sys-turn, or any other data-sys-*
    data: Any
    tenant: NotRequired[str]
    agent_name: NotRequired[str]
    model_name: NotRequired[str]
    provider_name: NotRequired[str]
    derived: NotRequired[bool]


def encode(record: TelemetryRecord) -> bytes:
    """Return the record's value."""
    return json_text.encoded(record)


def decode(data: bytes | None) -> TelemetryRecord:
    """Record value -> TelemetryRecord. Raises InvalidRecord."""
    value = loads(data, OWN_LEVELS) if data is not None else None
    if not isinstance(value, dict) or value.get("v") != VERSION or not isinstance(value.get("type"), str):
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a telemetry record of version 1")
    return value  # type: ignore[return-value]  # checked above; the rest is ours
