"""Spans of OpenTelemetry about models and agents, and log records about them (dialect `otel`). A run is a trace.

| event | what it does |
|---|---|
| span | a call of a model, a tool, an agent, or what is around them: known when the trace is over |
| log | a log record that belongs to a span: the words of a call, where its emitter tells them so |
| any other | refused |

Events come in any order, and may come again: the turns are made of all of them, sorted by their times.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.dialects.otel.calls import call_of
from pipeline.dialects.otel.spans import Trace, trace_of
from pipeline.dialects.otel.turns import builders, groups_of
from topics.json_text import Fields

EVENTS: Final = "events"  # in the builder's scratch
OVER: Final = "aborted"  # the end of every trace for assembly, which so takes spans that come later


def begin(builder: Builder) -> None:
    """Begin a trace without spans."""
    builder.scratch[EVENTS] = []
    builder.scattered = builder.facts_only = True


def known(builder: Builder, event: Fields) -> None:
    """Keep a span or a log record; if its trace seems to be over, its turns are made soon."""
    for name in ("trace_id", "span_id"):
        if not isinstance(event[name], str):
            raise Violation(f"{name!r} must be a string, got {event[name]!r:.80}")
    for name in ("start", "end"):
        if type(event[name]) is not int or event[name] < 0:
            raise Violation(f"{name!r} must be a time in ns, got {event[name]!r:.80}")
    if not isinstance(event["attributes"], dict):
        raise Violation(f"'attributes' must be an object, got {event['attributes']!r:.80}")
    events: list[Fields] = builder.scratch[EVENTS]
    events.append(event)
    if event["type"] == "span" and may_end(event):
        builder.scratch["root"] = True
    if builder.scratch.get("root"):
        builder.ended = OVER if _seems_over(trace_of(events)) else None


def may_end(event: Any) -> bool:
    """Return whether a span may be the last of its trace: it has no parent, is an agent's, or its answer broke off."""
    trace = trace_of([event])
    spans = trace.spans.values()
    return any(not span.parent_id or span.kind == "agent" for span in spans) or any(
        call_of(span, ()).broken for span in trace.calls
    )


def _seems_over(trace: Trace) -> bool:
    """Return whether no call of a model is missing: the last has a final answer, or it failed, or its agent did."""
    for group in groups_of(trace):
        last = group.calls[-1]
        if last.calls and group.root is not None and not group.root.failed:
            return False
    return True


def finish(builder: Builder, end: str) -> None:
    """Make the turns of all that has come."""
    builder.children = builders(trace_of(builder.scratch[EVENTS]), builder.context)


def unknown(builder: Builder, event: Fields) -> None:
    """Refuse what is neither a span nor a log record."""
    raise Violation(f"a span or a log record is expected, got type {event.get('type')!r:.80}")


HANDLERS: Final[dict[str, Handler]] = {"span": known, "log": known}
