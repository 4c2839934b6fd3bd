"""Spans: what each is about, and which other it is a part of. Tables of the attributes by which emitters tell it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from pipeline.dialects.wire_values import text_or_empty
from topics.json_text import Fields, object_of, objects
from turnmill.wire.traceparent import PUBLISHED

Kind = Literal["call", "tool", "agent", "chain"]

# The attributes that say what a span is about, and what their values mean; the first that is known counts.
KINDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "openinference.span.kind": {"LLM": "call", "TOOL": "tool", "AGENT": "agent", "CHAIN": "chain"},
    "langsmith.span.kind": {"llm": "call", "tool": "tool", "chain": "chain"},
    "ai.operationId": {
        **dict.fromkeys(("ai.generateText.doGenerate", "ai.streamText.doStream"), "call"),
        **dict.fromkeys(("ai.generateObject.doGenerate", "ai.streamObject.doStream"), "call"),
        **dict.fromkeys(("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"), "agent"),
        "ai.toolCall": "tool",
    },
    "gen_ai.operation.name": {
        **dict.fromkeys(("chat", "generate_content", "text_completion"), "call"),
        **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
        "execute_tool": "tool",
    },
    "traceloop.span.kind": {"workflow": "agent", "agent": "agent", "tool": "tool", "task": "chain"},
    "llm.request.type": {"chat": "call", "completion": "call"},
}
NAMED: Final[Mapping[str, Kind]] = {
    "call_llm": "call",
    "running tool": "tool",
    "invocation": "agent",
    "agent run": "agent",
}
NO_TOOL: Final = "(merged tools)"  # Google ADK's span about several tools together
ADK: Final = "gcp.vertex.agent"
FRAMEWORKS: Final = ("langchain", "langgraph", "microsoft.agent_framework", ADK)  # what some name as the provider
PREFIXES: Final = (
    *("gen_ai.", "llm.", "ai.", "openinference.", "traceloop.", "langsmith.", "mastra.", "gcp.vertex.agent."),
    *("pydantic_ai.", "turnmill."),
)
CONVERSATIONS: Final = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id", "gcp.vertex.agent.session_id"),
    *(f"traceloop.association.properties.{name}" for name in ("session_id", "thread_id")),
    *(f"langsmith.metadata.{name}" for name in ("session_id", "thread_id")),
    *(f"mastra.metadata.{name}" for name in ("sessionId", "threadId")),
    *(
        f"{where}.{name}"
        for where in ("ai.settings.context", "ai.telemetry.metadata")
        for name in ("conversationId", "sessionId", "threadId", "chatId")
    ),
)
SERVER_SIDE: Final = "resp_"  # what Microsoft's framework names as a conversation is the response before
USERS: Final = (
    *("user.id", "enduser.id", "langfuse.user.id", "llm.user", "mastra.metadata.userId", "langsmith.metadata.user_id"),
    *("traceloop.association.properties.user_id", "ai.settings.context.userId", "ai.telemetry.metadata.userId"),
)
ENVIRONMENTS: Final = ("deployment.environment.name", "deployment.environment")
AGENTS: Final = (
    *("gen_ai.agent.name", "agent.name", "agent_name", "ai.telemetry.functionId", "langsmith.metadata.lc_agent_name"),
)
TOOLS: Final = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")


@dataclass(frozen=True)
class Span:
    """A span with the log records about it. Times in ns since 1970. `logs`: in the order of their times."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    scope: str
    start: int
    end: int
    failed: bool
    message: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    events: Sequence[Fields] = ()
    logs: tuple[Fields, ...] = ()

    @cached_property
    def kind(self) -> Kind | None:
        """What it is about; None: nothing that Turnmill knows."""
        if self.attributes.get("gen_ai.tool.name") == NO_TOOL:
            return None
        for name, meanings in KINDS.items():
            value = self.attributes.get(name)
            if isinstance(value, str) and value in meanings:
                return meanings[value]
        return NAMED.get(self.name)

    def value(self, names: Iterable[str]) -> Any:
        """Return the first of these attributes that it has."""
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)

    def first(self, names: Iterable[str]) -> str | None:
        """Return the first of these attributes that is a text and not empty."""
        values = (self.attributes.get(name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), None)


@dataclass(frozen=True)
class Trace:
    """The spans of a trace in the order of their times, and the span that each is a part of."""

    spans: Mapping[str, Span]

    @cached_property
    def above(self) -> Mapping[str, Span | None]:
        """The parent of each span. Where it was not exported: the shortest agent or tool that encloses it in time."""
        around = [span for span in self.spans.values() if span.kind in ("agent", "tool", "chain")]
        return {name: self._parent(span, around) for name, span in self.spans.items()}

    def _parent(self, span: Span, around: Sequence[Span]) -> Span | None:
        if not span.parent_id or span.parent_id in self.spans:
            return self.spans.get(span.parent_id)
        known = [outer for outer in around if outer.start <= span.start and span.end <= outer.end and outer is not span]
        longer = [outer for outer in known if outer.end - outer.start > span.end - span.start]
        return min(longer, key=lambda outer: outer.end - outer.start, default=None)

    def ancestors(self, span: Span) -> list[Span]:
        """Return the spans that this span is a part of, innermost first."""
        path: dict[str, Span] = {}
        at = self.above[span.span_id]
        while at is not None and at.span_id not in path and at is not span:
            path[at.span_id] = at
            at = self.above[at.span_id]
        return list(path.values())

    @cached_property
    def calls(self) -> list[Span]:
        """The calls of models. A call inside of a call is the same, told twice; captured ones are left out."""
        calls: dict[str, Span] = {}
        inner: list[tuple[Span, Span]] = []
        captured = {name for name, span in self.spans.items() if PUBLISHED in span.attributes}
        around = captured | {above.span_id for name in captured for above in self.ancestors(self.spans[name])}
        for span in self.spans.values():
            beside = span.span_id not in around and captured.isdisjoint(
                [above.span_id for above in self.ancestors(span)]
            )
            if span.kind == "call" and beside:
                outer = [above for above in self.ancestors(span) if above.kind == "call"]
                if outer:
                    inner.append((span, outer[-1]))
                else:
                    calls[span.span_id] = span
        for span, outermost in inner:
            whole = calls.get(outermost.span_id, span)
            told = {name: value for name, value in whole.attributes.items() if value not in FRAMEWORKS}
            logs = (*whole.logs, *span.logs)
            calls[outermost.span_id] = replace(whole, attributes={**span.attributes, **told}, logs=logs)
        return sorted(calls.values(), key=lambda span: (span.start, span.end, span.span_id))

    def conversation(self) -> str | None:
        """Return the conversation's id as the topmost span that has it tells it."""
        answers = {span.first(["gen_ai.response.id"]) for span in self.spans.values()}
        for span in sorted(self.spans.values(), key=lambda span: len(self.ancestors(span))):
            for name in CONVERSATIONS:
                value = span.attributes.get(name)
                if isinstance(value, str) and value and not value.startswith(SERVER_SIDE) and value not in answers:
                    return value
        return None


def is_about_models(span: Fields) -> bool:
    """Return whether a span or a log record, as an event, has to do with models and agents."""
    attributes = object_of(span.get("attributes"))
    name = str(span.get("name"))
    return name.startswith("gen_ai.") or any(key.startswith(PREFIXES) for key in attributes)


def trace_of(events: Iterable[Fields]) -> Trace:
    """Return the spans of these events, which are in any order; pieces of a span, told several times, are joined."""
    pieces: dict[str, list[Fields]] = {}
    logs: dict[str, list[Fields]] = {}
    for event in sorted(events, key=lambda event: (event["end"], str(sorted(event["attributes"].items(), key=str)))):
        (pieces if event["type"] == "span" else logs).setdefault(event["span_id"], []).append(event)
    spans = [_span(told, logs.get(name, [])) for name, told in pieces.items()]
    return Trace({span.span_id: span for span in sorted(spans, key=lambda span: (span.start, span.end, span.span_id))})


def _span(told: Sequence[Fields], logs: Sequence[Fields]) -> Span:
    attributes = {name: value for piece in told for name, value in piece["attributes"].items()}
    newest, status = told[-1], object_of(told[-1].get("status"))
    return Span(
        trace_id=newest["trace_id"],
        span_id=newest["span_id"],
        parent_id=text_or_empty(newest.get("parent_id")),
        name=str(newest.get("name")),
        scope=str(newest.get("scope")),
        start=newest["start"],
        end=newest["end"],
        failed=status.get("code") == 2,  # ERROR
        message=str(status.get("message") or ""),
        attributes=attributes,
        resource=object_of(newest.get("resource")),
        events=next((objects(piece["events"]) for piece in reversed(told) if piece.get("events")), []),
        logs=tuple(logs),
    )
