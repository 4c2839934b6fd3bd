"""The wires that agents speak: the registry, one line each, with what an agent's process needs to know of a wire.

All else that knows a wire is in its folder, `pipeline/dialects/NAME` with `-` as `_`, whose `DIALECT` is found by this
name. What is called a dialect in the envelope is the name of a wire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from threadmill.sdk_objects import model, pydantic_ai_event

Framing = Literal["sse", "named-sse", "data-lines"]  # as `threadmill.framing` describes them


@dataclass(frozen=True, slots=True)
class Wire:
    """How the events of one wire are cut out of a stream, and told apart.

    `kind`: the key that holds an event's type. `framing`: see `threadmill.framing`. `done_marker`: SSE data that ends
    a stream and is no event. `as_event`: an event as an object of the SDK -> a dict; it may raise InvalidRecord, and
    gives back what it does not know, for its reader to refuse.
    """

    kind: str = "type"
    framing: Framing = "sse"
    done_marker: str | None = None
    as_event: Callable[[Any], Any] = model


WIRES: Final[dict[str, Wire]] = {
    "agents-sdk": Wire(kind="event", framing="named-sse"),
    "pi-agent": Wire(),
    "pi-proxy": Wire(framing="data-lines"),
    "pydantic-ai": Wire(kind="event_kind", as_event=pydantic_ai_event),
    "thread-protocol": Wire(),
    "vercel-ai": Wire(done_marker="[DONE]"),
}
