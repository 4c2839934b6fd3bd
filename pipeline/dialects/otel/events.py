"""Spans of OpenTelemetry about models and agents, and log records about them (dialect `otel`). A run is a trace.

| event | what it does |
|---|---|
| span | a call of a model, a tool, an agent, or what is around them: known when the trace is over |
| log | a log record that belongs to a span: the words of a call, where its emitter tells them so |
| any other | refused |

Events come in any order, and may come again: the turns are made of all of them, sorted by their times.
"""

from dataclasses import dataclass, field
from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.dialects.otel.calls import call_of
from pipeline.dialects.otel.spans import trace_of
from pipeline.dialects.otel.turns import builders
from topics.json_text import Fields

OVER: Final = "aborted"  # the end of every trace for assembly, which so takes spans that come later


@dataclass(slots=True)
class Spans:
    """The events of a trace. `root`, `failed`: a span has come that may be its last, and a span that failed.

    `newest`: the call that began last: when, its id, and whether an agent goes on with the results of its calls.
    """

    events: list[Fields] = field(default_factory=list)
    root: bool = False
    failed: bool = False
    newest: tuple[int, str, bool] = (0, "", False)


def begin(builder: Builder) -> None:
    """Begin a trace without spans."""
    builder.scratch = Spans()
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
    trace, spans = trace_of([event]), builder.scratch
    roots = [span for span in trace.spans.values() if not span.parent_id or span.kind == "agent"]
    calls = [call_of(span, ()) for span in trace.calls]
    spans.events.append(event)
    spans.root = spans.root or bool(roots) or any(call.broken for call in calls)
    spans.failed = spans.failed or any(span.failed for span in roots)
    for call in calls:
        goes_on = bool(call.calls and call.span.parent_id)
        spans.newest = max(spans.newest, (call.span.start, call.span.span_id, goes_on))
    builder.ended = OVER if spans.root and (spans.failed or not spans.newest[2]) else None


def finish(builder: Builder, end: str) -> None:
    """Make the turns of all that has come."""
    builder.children = builders(trace_of(builder.scratch.events), builder.context)


def unknown(builder: Builder, event: Fields) -> None:
    """Refuse what is neither a span nor a log record."""
    raise Violation(f"a span or a log record is expected, got type {event.get('type')!r:.80}")


HANDLERS: Final[dict[str, Handler]] = {"span": known, "log": known}
