"""Feedback in the stream of a run: an event `data-feedback` becomes a record of the feedback topic. Pure.

Its data are the fields of that record, except those known from the run: {"name", "value", "comment"?, "by"?, "id"?,
"turn_id"?, "run_id"?, "message"?}. It is about its own run, unless it names a turn, or another run; with `run_id` null,
about the whole thread. Without an `id`, it gets one from its position in the run, the same at every replay.
"""

from __future__ import annotations

from typing import Any, Final, cast

from topics.feedback import FeedbackRecord
from topics.telemetry import TelemetryRecord
from turnmill.errors import InvalidRecord, Reason
from turnmill.identity import turn_id
from turnmill.wire.feedback_record import FIELDS, VERSION, problem_of

FEEDBACK: Final = "data-feedback"
OF_THE_RUN: Final = ("v", "thread_id", "tenant", "at")


def feedback_of(event: TelemetryRecord) -> FeedbackRecord:
    """Return the feedback of such an event, given as a telemetry record. Raises InvalidRecord."""
    data = event["data"]
    if not isinstance(data, dict):
        raise InvalidRecord(Reason.INVALID_EVENT, f"{FEEDBACK}: data is an object with name and value")
    thread_id, run_id = event["thread_id"], event["run_id"]
    record: dict[str, Any] = {"id": turn_id(thread_id, run_id, f"feedback {event['seq']}")}
    if "turn_id" not in data:
        record["run_id"] = run_id
    record |= {name: data[name] for name in FIELDS if name in data and name not in OF_THE_RUN}
    record |= {"v": VERSION, "thread_id": thread_id, "tenant": event.get("tenant"), "at": event["ts"]}
    if (problem := problem_of(record)) is not None:
        raise InvalidRecord(Reason.INVALID_EVENT, f"{FEEDBACK}: {problem}")
    return cast(
        "FeedbackRecord", {name: value for name, value in record.items() if value is not None or name == "value"}
    )
