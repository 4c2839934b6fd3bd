"""The stream events of OpenAI's Agents SDK (dialect `openai-agents`), of 0.2 to 0.24: one JSON object an event.

| event | what it does |
|---|---|
| raw_response_event: response.created … | a response, open until its terminal event |
| raw_response_event: response.output_item.done | the item, whole, instead of its deltas |
| raw_response_event: response.completed, .incomplete | closes the response; its output overrules all before |
| raw_response_event: response.failed, error | SystemMessage `error`; failed, unless it had ended, or another follows |
| raw_response_event: an item or a delta behind those | refused: it belongs to no response |
| raw_response_event: progress | nothing: the item contains it |
| run_item_stream_event: tool_output | the `tool-return` after the call's response |
| run_item_stream_event: handoff_occured | the same, and SystemMessage `handoff` |
| run_item_stream_event: what a model said | the response's content, where raw events are missing; else nothing |
| run_item_stream_event: other items | SystemMessage `custom:TYPE`, the item whole |
| agent_updated_stream_event | the agent of the next responses |
| any other | SystemMessage `custom:openai-agents.TYPE` |

The stream has no last event: the publisher's `end` is the end.
"""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Stretch
from pipeline.dialects.openai_agents.answer import Memory
from pipeline.dialects.openai_agents.raw_events import raw, raws, settle
from pipeline.dialects.openai_agents.request import add_asked
from pipeline.dialects.openai_agents.run_items import agent_name, run_item
from pipeline.dialects.speakers import hand_off
from topics.json_text import Fields


def begin(builder: Builder) -> None:
    """Prepare for a run. Its arguments, the publisher's `run.request`, contain the user's message."""
    builder.scratch = Memory()
    add_asked(builder)


def finish(builder: Builder, end: str) -> None:
    """Set the last response complete if the run is."""
    if end == "complete":
        settle(builder)
        builder.close_response()


def agent_updated(builder: Builder, event: Fields) -> None:
    """Set the agent of the next responses; if the stream has run items, one of them is the hand-off."""
    memory: Memory = builder.scratch
    name = agent_name(event["new_agent"])
    if name and memory.agent and name not in (memory.agent, memory.moved):
        hand_off(builder, memory.agent, name)
    memory.agent, memory.moved = name or memory.agent, None


def unknown(builder: Builder, event: Fields) -> None:
    """Keep an unknown event as it is."""
    kind = event["type"] + ""
    builder.system(f"custom:openai-agents.{kind}", {key: value for key, value in event.items() if key != "type"})


HANDLERS: Final[dict[str, Handler]] = {
    "raw_response_event": raw,
    "run_item_stream_event": run_item,
    "agent_updated_stream_event": agent_updated,
}
STRETCHES: Final[dict[str | None, Stretch]] = {"raw_response_event": raws}
