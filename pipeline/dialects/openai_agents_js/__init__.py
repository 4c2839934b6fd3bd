"""The stream events of OpenAI's Agents SDK for JavaScript."""

from typing import Any, Final

from pipeline.dialects.kin import kin
from pipeline.dialects.openai_agents import DIALECT as OF
from pipeline.dialects.openai_agents_js import events


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: the SDK for Python has other names for the same."""
    match event:
        case {"type": "raw_model_stream_event"} | {"type": "agent_updated_stream_event", "agent": _}:
            return True
        case {"type": "run_item_stream_event", "item": {"rawItem": _}}:
            return True
    return False


DIALECT: Final = kin("openai-agents-js", OF, events.translate, events.body, recognises, provider=None)
