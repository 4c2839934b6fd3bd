"""Run items: a model's output (again), results of tools, and hand-offs."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Part
from pipeline.dialects.openai_agents.answer import Memory
from pipeline.dialects.openai_agents.items import is_beside, parts, sources
from pipeline.dialects.openai_agents.outputs import answer_of, is_output
from pipeline.dialects.openai_agents.raw_events import settle
from pipeline.dialects.speakers import hand_off, speaker
from topics.json_text import Fields

OF_CLIENT: Final = frozenset({"mcp_approval_response", "tool_search_output"})  # items that are not a model's


def run_item(builder: Builder, event: Fields) -> None:
    """Take an item of the run: a model's item (again), a tool's result, or a fact beside both."""
    memory: Memory = builder.scratch
    item = event["item"]
    raw = item["raw_item"]
    kind = raw["type"] + ""
    if is_output(item, raw):
        fields = answer_of(item, raw)
        settle(builder)
        if _is_answered(builder, fields["tool_call_id"]):
            return
        builder.close_response()
        memory.is_over, memory.last_id = False, None
        _put_return(builder, fields)
        _move(builder, item)
    elif not _is_of_model(item, raw):
        builder.system(f"custom:{kind}", raw)
    elif memory.is_raw:
        _name(builder, item)
    else:
        _say(builder, item, raw)


def _is_answered(builder: Builder, call_id: str) -> bool:
    """Return True if the newest response itself contains the result.

    The tool is the server's, and its output is also an item of the run.
    """
    response = builder.last_response()
    calls = [part.fields for part in response.parts] if response is not None else []
    return any(f["part_kind"] == "builtin-tool-return" and f["tool_call_id"] == call_id for f in calls)


def _is_of_model(item: Fields, raw: Fields) -> bool:
    """Return True if a response of the model contains this item, too."""
    return raw["type"] not in OF_CLIENT and item.get("type") != "mcp_approval_response_item"


def _name(builder: Builder, item: Fields) -> None:
    """Set the agent of a response from its run item."""
    memory: Memory = builder.scratch
    name = agent_name(item.get("agent"))
    response = memory.answer.response if memory.answer is not None else builder.last_response()
    if name and response is not None:
        memory.agent = name
        response.fields["agent_id"] = speaker(builder, name)


def _say(builder: Builder, item: Fields, raw: Fields) -> None:
    """Add an item in a stream without raw events: items up to the next output are one response."""
    memory: Memory = builder.scratch
    made = parts(raw)
    memory.agent = agent_name(item.get("agent")) or memory.agent
    response = builder.response or builder.open_response(agent_id=speaker(builder, memory.agent))
    for fields in made:
        added = builder.add_part(fields)
        if fields["part_kind"] == "tool-call":
            builder.calls[fields["tool_call_id"]] = (response, added)
    for event_type, data in sources(raw):
        builder.system(event_type, data)
    if is_beside(raw):
        builder.system(f"custom:{raw['type']}", raw)


def _put_return(builder: Builder, fields: Fields) -> None:
    """Put a result after the response with its call, or, if an earlier run made the call, into the request here."""
    call_id = fields["tool_call_id"]
    if call_id in builder.calls:
        rest = {key: value for key, value in fields.items() if key not in ("part_kind", "tool_name", "tool_call_id")}
        builder.tool_return(call_id, **rest)
        return
    if builder.lossy:
        raise Violation(f"result of {call_id!r:.80}, whose call was lost")
    last = builder.last_response()
    first = next((message for message in builder.messages if message.kind == "request"), None)
    request = builder.request_after(last) if last is not None or first is None else first
    request.parts.append(Part(fields, done=True))


def _move(builder: Builder, item: Fields) -> None:
    memory: Memory = builder.scratch
    source, target = agent_name(item.get("source_agent")), agent_name(item.get("target_agent"))
    if target:
        hand_off(builder, source or memory.agent, target)
        memory.moved = target


def agent_name(value: Any) -> str:
    """Return the name of an agent in an event; "" if it has none."""
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""
