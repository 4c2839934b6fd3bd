"""The registry of the wires that agents speak, with the facts that an agent's process needs, a line each.

All other code for a wire is in its folder, `pipeline/dialects/NAME` with `-` as `_`; its `DIALECT` is found by this
name. The `dialect` in the envelope is the name of a wire.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from turnmill.wire.sdk_objects import (
    LEFT_OUT,
    anthropic_event,
    bedrock_event,
    claude_code_event,
    gemini_event,
    langgraph_event,
    model,
    openai_agents_event,
    openai_chat_event,
    openai_responses_event,
    pydantic_ai_event,
    strands_event,
)

# As `turnmill.wire.framing` describes them.
Framing = Literal["sse", "named-sse", "data-lines", "sse-or-array", "sse-or-frames"]


@dataclass(frozen=True, slots=True)
class Wire:
    """The framing of the same wire's events, and how to recognize their types.

    `kind`: the key of an event's type. `untyped`: the type may also be missing or null. `framing`: see
    `wire.framing`. `done_marker`: SSE data that ends a stream and is no event. `boxed`: an event may be any JSON
    value; one that is no object is published as {"event": null, "data": VALUE}. So is the done marker, which has a
    meaning on such a wire. `as_event`: converts an SDK's event object to a dict, or on a boxed wire to any JSON value.
    It returns LEFT_OUT for an event that repeats others, and unknown values unchanged, which readers then refuse. It
    may raise InvalidRecord. `holds_objects`: a dict may contain such objects, too. `unnumbered`: events come from
    several sources, in any order; the `seq` of each is a number that follows from the event, so it is taken once.
    """

    kind: str = "type"
    framing: Framing = "sse"
    done_marker: str | None = None
    as_event: Callable[[Any], Any] = model
    untyped: bool = False
    boxed: bool = False
    holds_objects: bool = False
    unnumbered: bool = False

    def event_of(self, event: Any) -> Any:
        """Return an event in its published form, or LEFT_OUT. Raises InvalidRecord."""
        fields = event if type(event) is dict and not self.holds_objects else self.as_event(event)
        return box(fields) if self.boxed and fields is not LEFT_OUT and not isinstance(fields, dict) else fields

    def takes(self, kind: Any) -> bool:
        """Return True if an event of this wire may hold `kind` as its type; None: it has no type."""
        return isinstance(kind, str) or (kind is None and (self.untyped or self.boxed))


def box(value: Any) -> dict[str, Any]:
    """Return an event that contains a JSON value which is no object."""
    return {"event": None, "data": value}


OTEL: Final = "otel"  # its runs are traces: a run id is a trace id

WIRES: Final[dict[str, Wire]] = {
    "a2a": Wire(kind="method", untyped=True),
    "acp": Wire(kind="method", untyped=True),
    "ag-ui": Wire(),
    "agents-sdk": Wire(kind="event", framing="named-sse"),
    "anthropic": Wire(done_marker="[DONE]", untyped=True, as_event=anthropic_event),
    "bedrock": Wire(untyped=True, framing="sse-or-frames", as_event=bedrock_event, holds_objects=True),
    "claude-code": Wire(as_event=claude_code_event),
    "codex": Wire(untyped=True),
    "cohere": Wire(done_marker="[DONE]", untyped=True),
    "gemini": Wire(untyped=True, boxed=True, framing="sse-or-array", as_event=gemini_event),
    "gemini-cli": Wire(),
    "gemini-interactions": Wire(kind="event_type", done_marker="[DONE]", untyped=True),
    "google-adk": Wire(untyped=True, boxed=True),
    "langgraph": Wire(
        kind="event", framing="named-sse", untyped=True, boxed=True, as_event=langgraph_event, holds_objects=True
    ),
    "mastra": Wire(),
    "mistral": Wire(done_marker="[DONE]", untyped=True),
    "ollama": Wire(untyped=True),
    "openai-agents": Wire(done_marker="[DONE]", as_event=openai_agents_event),
    "openai-agents-js": Wire(),
    "openai-chat": Wire(kind="object", done_marker="[DONE]", untyped=True, boxed=True, as_event=openai_chat_event),
    "openai-realtime": Wire(untyped=True, as_event=openai_responses_event),
    "openai-responses": Wire(done_marker="[DONE]", untyped=True, as_event=openai_responses_event),
    "opencode": Wire(),
    OTEL: Wire(unnumbered=True),
    "pi-agent": Wire(),
    "pi-proxy": Wire(framing="data-lines"),
    "pydantic-ai": Wire(kind="event_kind", as_event=pydantic_ai_event),
    "strands": Wire(untyped=True, as_event=strands_event, holds_objects=True),
    "thread-protocol": Wire(),
    "vercel-ai": Wire(done_marker="[DONE]"),
}
