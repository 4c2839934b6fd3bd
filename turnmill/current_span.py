"""The current span of a program that traces itself by OpenTelemetry."""

from __future__ import annotations

import sys


def current() -> str | None:
    """Return the `traceparent` of the current span; None where there is none.

    OpenTelemetry is not imported for this: a program that has not imported it has no span.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
