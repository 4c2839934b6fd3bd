"""The ids that a log line about a run carries, for collectors."""

from __future__ import annotations

from turnmill.wire.traceparent import parse


def log_ids(thread_id: object, run_id: object, traceparent: object) -> dict[str, object]:
    """Return the `extra` of a log line about a run: thread_id, run_id and trace_id, those that are known."""
    span = parse(traceparent)
    names = {"thread_id": thread_id, "run_id": run_id, "trace_id": None if span is None else span.trace_id}
    return {name: value for name, value in names.items() if isinstance(value, str)}
