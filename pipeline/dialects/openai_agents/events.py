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

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Stretch, Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_agents.items import answer_of, is_beside, is_output, parts, sources, tool_return
from pipeline.dialects.openai_agents.raw_events import Memory, raw, raws, settle
from pipeline.dialects.openai_responses.request import is_own, user_prompt
from pipeline.dialects.speakers import hand_off, speaker
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.lineage import History
from topics.json_text import Fields, objects

OF_CLIENT: Final = frozenset({"mcp_approval_response", "tool_search_output"})  # items that are not a model's


def begin(builder: Builder) -> None:
    """Prepare for a run, and read the user turn and outputs of tools with which it starts.

    The run's arguments are {"input": text | input items}. Items after the last one of a model are new.
    """
    builder.scratch["memory"] = Memory()
    body = builder.context.request
    asked = body.get("input") if isinstance(body, dict) else body
    if isinstance(asked, str):
        builder.user_turn([{"part_kind": "user-prompt", "content": asked}])
    elif isinstance(asked, list):
        items = objects(asked)
        new = items[max((n for n, item in enumerate(items) if is_own(item)), default=-1) + 1 :]
        prompts = [user_prompt(item) for item in new if item.get("role") == "user"]
        returns = [tool_return(item) for item in new if str(item.get("type")).endswith("call_output")]
        if prompts:
            builder.user_turn(prompts)
        if returns:
            answered = [Part(fields, done=True) for fields in returns]
            builder.messages.append(Message("request", builder.at, answered, closed=True))


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    asked = body.get("input") if isinstance(body, dict) else body
    return History(asked if isinstance(asked, list) else [{"role": "user", "content": asked}])


def run_item(builder: Builder, event: Fields) -> None:
    """Take an item of the run: a model's item (again), a tool's result, or a fact beside both."""
    memory: Memory = builder.scratch["memory"]
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
    elif kind in OF_CLIENT or item.get("type") == "mcp_approval_response_item":
        builder.system(f"custom:{kind}", raw)
    elif memory.is_raw:
        _name(builder, item)
    else:
        _say(builder, item, raw)


def _is_answered(builder: Builder, call_id: str) -> bool:
    """Return True if the newest response itself contains the result: the tool is the server's."""
    response = builder.last_response()
    calls = [part.fields for part in response.parts] if response is not None else []
    return any(f["part_kind"] == "builtin-tool-return" and f["tool_call_id"] == call_id for f in calls)


def _name(builder: Builder, item: Fields) -> None:
    memory: Memory = builder.scratch["memory"]
    name = _agent_name(item.get("agent"))
    response = memory.answer.response if memory.answer is not None else builder.last_response()
    if name and response is not None:
        memory.agent = name
        response.fields["agent_id"] = speaker(builder, name)


def _say(builder: Builder, item: Fields, raw: Fields) -> None:
    """Add an item in a stream without raw events: items up to the next output are one response."""
    memory: Memory = builder.scratch["memory"]
    made = parts(raw)
    memory.agent = _agent_name(item.get("agent")) or memory.agent
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
    memory: Memory = builder.scratch["memory"]
    source, target = _agent_name(item.get("source_agent")), _agent_name(item.get("target_agent"))
    if target:
        hand_off(builder, source or memory.agent, target)
        memory.moved = target


def _agent_name(value: Any) -> str:
    return text_or_empty(value.get("name")) if isinstance(value, dict) else ""


def finish(builder: Builder, end: str) -> None:
    """Set the last response complete if the run is."""
    memory: Memory = builder.scratch["memory"]
    if end == "complete":
        settle(builder)
        builder.close_response()
    elif memory.answer is not None:
        memory.answer.settle(whole=False)


def agent_updated(builder: Builder, event: Fields) -> None:
    """Set the agent of the next responses; if the stream has run items, one of them is the hand-off."""
    memory: Memory = builder.scratch["memory"]
    name = _agent_name(event["new_agent"])
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
