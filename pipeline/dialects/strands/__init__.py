"""The events that `stream_async` of Strands Agents yields, of an agent, a graph or a swarm."""

from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.bedrock import recognises as is_bedrocks
from pipeline.dialects.kin import kin
from pipeline.dialects.strands import events

KEYS: Final = frozenset({"init_event_loop", "start_event_loop", "event_loop_throttled_delay", "force_stop"})


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"type": str(kind)}:
            return kind.startswith(("multiagent_", "tool_stream", "tool_use_stream"))
        case {"event": dict(inner)}:
            return is_bedrocks(inner) or "redactContent" in inner
        case {"message": {"role": "user" | "assistant", "content": list()}} | {"result": {"type": "agent_result"}}:
            return True
        case {"start": True} | {"data": str(), "delta": {"text": _}} | {"reasoning": True, "delta": _}:
            return True
    return isinstance(event, dict) and not KEYS.isdisjoint(event)


DIALECT: Final = kin(
    "strands", OF, events.translate, events.body, recognises, more=events.HANDLERS, finish=events.finish
)
