"""The span that a run is a part of, in the publisher's trace: the `traceparent` of W3C Trace Context.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01     version, trace id, span id, flags

It is a header of the run's records, or `traceparent` in their `run` object.
Trace Context: https://www.w3.org/TR/trace-context/#traceparent-header
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

HEADER: Final = "traceparent"
PUBLISHED: Final = "turnmill.published"  # an attribute of spans whose run was published
FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]{0,400})?")


@dataclass(frozen=True, slots=True)
class TraceParent:
    """A span of another program. `text`: the original value."""

    text: str
    trace_id: str  # 32 hex digits
    span_id: str  # 16 hex digits
    flags: int


def parse(value: Any) -> TraceParent | None:
    """Return the span; None for a malformed value, which the specification tells readers to ignore."""
    match = FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    known = (version == "00" and more is None) or version not in ("00", "ff")  # a later version may have more fields
    if not known or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceParent(value, trace_id, span_id, int(flags, 16))


def of_headers(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """Return the `traceparent` in a record's headers; None if there is none, or it is malformed."""
    for name, value in headers:
        if name == HEADER and value is not None:
            text = value.decode("latin-1")
            return None if parse(text) is None else text
    return None


def headers(value: str) -> list[tuple[str, bytes]]:
    """Return the headers of a record whose run is a part of this span; `of_headers` reads them."""
    return [(HEADER, value.encode())]


def log_ids(thread_id: object, run_id: object, traceparent: object) -> dict[str, object]:
    """Return the `extra` of a log line about a run: thread_id, run_id and trace_id, those that are known."""
    span = parse(traceparent)
    names = {"thread_id": thread_id, "run_id": run_id, "trace_id": None if span is None else span.trace_id}
    return {name: value for name, value in names.items() if isinstance(value, str)}


def current() -> str | None:
    """Return the `traceparent` of the program's current span in OpenTelemetry, for a run; None where there is none.

    The span is marked, so that a gateway to which it is exported, too, leaves it out: the run's stream says more.
    OpenTelemetry is not imported for this: a program that has not imported it has no span.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    current_span = api.get_current_span()
    span = current_span.get_span_context()
    if not span.is_valid:
        return None
    current_span.set_attribute(PUBLISHED, True)  # does nothing where the span is not recorded
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
