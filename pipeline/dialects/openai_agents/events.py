"""The stream events of OpenAI's Agents SDK (dialect `openai-agents`), of 0.2 to 0.24: one JSON object an event.

| event | what it does |
|---|---|
| raw_response_event: response.created … | a response, open until its terminal event |
| raw_response_event: response.output_item.done | the item, whole, instead of its deltas |
| raw_response_event: response.completed, .incomplete | closes the response; its output overrules all before |
| raw_response_event: response.failed, error | SystemMessage `error`; failed, unless another response follows |
| run_item_stream_event: tool_output | the `tool-return` behind the call's response |
| run_item_stream_event: handoff_occured | the same, and SystemMessage `handoff` |
| run_item_stream_event: what a model said | the response's content, where raw events are missing; else nothing |
| run_item_stream_event: other items | SystemMessage `custom:TYPE`, the item whole |
| agent_updated_stream_event | whose the next responses are |
| any other | SystemMessage `custom:openai-agents.TYPE` |

The stream has no last event: the publisher's `end` is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_agents.answer import FAILED, TERMINAL, Answer
from pipeline.dialects.openai_agents.items import FAKE_ID, is_beside, parts, sources
from pipeline.dialects.openai_agents.outputs import answer_of, is_output
from pipeline.dialects.openai_agents.request import add_asked
from pipeline.dialects.speakers import hand_off, speaker
from topics.json_text import Fields

OPEN: Final = "answer"
OF_CLIENT: Final = frozenset({"mcp_approval_response", "tool_search_output"})  # items that no model said
REASONS: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(slots=True, eq=False)
class Memory:
    """`answer`: the call that is going on. `is_over`: the newest call had its terminal event, and nothing followed.
    `is_raw`: the model's own events are in the stream. `agent`: who speaks; `moved`: to whom a hand-off led.
    """

    answer: Answer | None = None
    last_id: str | None = None
    is_over: bool = False
    is_raw: bool = False
    agent: str = ""
    moved: str | None = None


def begin(builder: Builder) -> None:
    """What the user said is in the arguments of the run."""
    builder.scratch = Memory()
    add_asked(builder)


def finish(builder: Builder, end: str) -> None:
    """Of a run that is complete, so is its last response."""
    if end == "complete":
        _settle(builder)
        builder.close_response()


# ---- the model's own events


def raw(builder: Builder, event: Fields) -> None:
    """One event of the Responses API."""
    memory: Memory = builder.scratch
    told = event["data"]
    kind = told["type"] + ""
    response = told.get("response") if isinstance(told.get("response"), dict) else {}
    if kind in FAILED or kind in TERMINAL:
        if memory.is_over:
            return
        if kind in FAILED:
            _fail(builder, told, response)
        else:
            _end(builder, response)
        return
    if kind == "response.created":
        _begin(builder, response.get("id"))
    elif not memory.is_over and kind.startswith("response."):
        answer = memory.answer or _open(builder, None)
        if OPEN not in builder.open_text:  # it is cleared where events are missing
            builder.open_text[OPEN] = Part({"part_kind": "text", "content": ""})
            answer.forget_live()
        answer.take(told, builder.at)


def _begin(builder: Builder, response_id: Any) -> None:
    """A call begins, unless it is told again of the one that is going on, or of the one that has just ended."""
    memory: Memory = builder.scratch
    is_same = response_id is not None and response_id == memory.last_id and response_id != FAKE_ID
    if is_same and (memory.is_over or memory.answer is not None):
        return
    if memory.answer is not None:
        memory.answer.give_up()
    _open(builder, response_id)


def _open(builder: Builder, response_id: Any) -> Answer:
    memory: Memory = builder.scratch
    builder.close_response()
    response = Message("response", builder.at, fields={"agent_id": speaker(builder, memory.agent)})
    builder.messages.append(response)
    memory.answer = Answer(response)
    builder.open_text[OPEN] = Part({"part_kind": "text", "content": ""})
    memory.last_id = response_id if isinstance(response_id, str) else None
    memory.is_over, memory.is_raw = False, True
    builder.ended = builder.error_text = None
    return memory.answer


def _end(builder: Builder, told: Fields) -> None:
    """The terminal event: its output is the content, where it has any."""
    memory: Memory = builder.scratch
    answer = memory.answer or _open(builder, told.get("id"))
    answer.settle(told.get("output"))
    fields = answer.response.fields
    if isinstance(told.get("model"), str):
        fields["model_name"] = told["model"]
    response_id = told.get("id")
    if isinstance(response_id, str) and response_id != FAKE_ID:
        fields["provider_response_id"] = response_id
    if isinstance(told.get("usage"), dict):
        fields["usage"] = told["usage"]
    if told.get("status") == "incomplete" or told.get("incomplete_details"):
        details = told.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        fields["finish_reason"] = REASONS.get(str(reason), "error")
    _settle(builder)
    memory.is_over = True


def _fail(builder: Builder, told: Fields, response: Fields) -> None:
    """The call broke off: what it had said is not in the conversation."""
    memory: Memory = builder.scratch
    error = response.get("error") or told.get("error")
    error = error if isinstance(error, dict) else told
    data = {key: error[key] for key in ("code", "message", "param") if error.get(key) is not None}
    builder.system("error", data)
    text = data.get("message", data.get("code"))
    builder.error_text = text if isinstance(text, str) else None
    builder.ended = "error"
    memory.answer, memory.is_over = None, True


def _settle(builder: Builder) -> None:
    """The open call is over: its calls can be answered, and what it told beside them is told."""
    memory: Memory = builder.scratch
    answer, memory.answer = memory.answer, None
    if answer is None:
        return
    if not answer.response.closed and builder.lossy:
        answer.give_up()
        return
    if not answer.response.closed:
        answer.settle()
    answer.response.last_at = builder.at
    for part in answer.response.parts:
        if part.fields["part_kind"] == "tool-call":
            builder.calls[part.fields["tool_call_id"]] = (answer.response, part)
    for item in answer.items:
        for event_type, data in sources(item) if isinstance(item.get("type"), str) else ():
            builder.system(event_type, data)
    for item in answer.beside:
        builder.system(f"custom:{item['type']}", item)


# ---- run items


def run_item(builder: Builder, event: Fields) -> None:
    """An item of the run: what a model said (again), what a tool returned, or what is beside both."""
    memory: Memory = builder.scratch
    item = event["item"]
    told = item["raw_item"]
    kind = told["type"] + ""
    if is_output(item, told):
        fields = answer_of(item, told)
        _settle(builder)
        if _is_answered(builder, fields["tool_call_id"]):
            return
        builder.close_response()
        memory.is_over, memory.last_id = False, None
        _put_return(builder, fields)
        _move(builder, item)
    elif not _is_of_model(item, told):
        builder.system(f"custom:{kind}", told)
    elif memory.is_raw:
        _name(builder, item)
    else:
        _say(builder, item, told)


def _is_answered(builder: Builder, call_id: str) -> bool:
    """Whether the newest response has the result itself: a tool of the server's, whose output is an item of the run."""
    response = builder.last_response()
    own = [part.fields for part in response.parts] if response is not None else []
    return any(f["part_kind"] == "builtin-tool-return" and f["tool_call_id"] == call_id for f in own)


def _is_of_model(item: Fields, told: Fields) -> bool:
    """Whether a response of the model has this item, too."""
    return told["type"] not in OF_CLIENT and item.get("type") != "mcp_approval_response_item"


def _name(builder: Builder, item: Fields) -> None:
    """A run item tells whose its response is."""
    memory: Memory = builder.scratch
    name = _agent(item.get("agent"))
    response = memory.answer.response if memory.answer is not None else builder.last_response()
    if name and response is not None:
        memory.agent = name
        response.fields["agent_id"] = speaker(builder, name)


def _say(builder: Builder, item: Fields, told: Fields) -> None:
    """Without raw events: the items up to the next output are one response."""
    memory: Memory = builder.scratch
    made = parts(told)
    memory.agent = _agent(item.get("agent")) or memory.agent
    response = builder.response or builder.open_response(agent_id=speaker(builder, memory.agent))
    for fields in made:
        added = builder.add_part(fields)
        if fields["part_kind"] == "tool-call":
            builder.calls[fields["tool_call_id"]] = (response, added)
    for event_type, data in sources(told):
        builder.system(event_type, data)
    if is_beside(told):
        builder.system(f"custom:{told['type']}", told)


def _put_return(builder: Builder, fields: Fields) -> None:
    """A result: behind the response with its call, or, of an earlier run's call, into the request at this place."""
    call_id = fields["tool_call_id"]
    if call_id in builder.calls:
        said = {key: value for key, value in fields.items() if key not in ("part_kind", "tool_name", "tool_call_id")}
        builder.tool_return(call_id, **said)
        return
    if builder.lossy:
        raise Violation(f"result of {call_id!r:.80}, whose call was lost")
    last = builder.last_response()
    first = next((message for message in builder.messages if message.kind == "request"), None)
    request = builder.request_after(last) if last is not None or first is None else first
    request.parts.append(Part(fields, done=True))


def _move(builder: Builder, item: Fields) -> None:
    memory: Memory = builder.scratch
    source, target = _agent(item.get("source_agent")), _agent(item.get("target_agent"))
    if target:
        hand_off(builder, source or memory.agent, target)
        memory.moved = target


# ---- agents


def agent_updated(builder: Builder, event: Fields) -> None:
    """Another agent speaks from now on; the hand-off to it was told by its item, if items are there."""
    memory: Memory = builder.scratch
    name = _agent(event["new_agent"])
    if name and memory.agent and name not in (memory.agent, memory.moved):
        hand_off(builder, memory.agent, name)
    memory.agent, memory.moved = name or memory.agent, None


def _agent(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def unknown(builder: Builder, event: Fields) -> None:
    """Kept as it is."""
    kind = event["type"] + ""
    builder.system(f"custom:openai-agents.{kind}", {key: value for key, value in event.items() if key != "type"})


HANDLERS: Final[dict[str, Handler]] = {
    "raw_response_event": raw,
    "run_item_stream_event": run_item,
    "agent_updated_stream_event": agent_updated,
}
