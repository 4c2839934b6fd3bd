"""The model's events (`raw_response_event`): those of the Responses API, one model call after the other."""

from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import ends
from pipeline.dialects.openai_agents.items import is_beside, parts, read, sources
from pipeline.dialects.openai_responses.events import DELTA_PIECES, WHOLE_PIECES
from pipeline.dialects.openai_responses.keys import FAKE_ID, META
from pipeline.dialects.openai_responses.output import Output
from pipeline.dialects.openai_responses.usage import usage_of
from pipeline.dialects.responses_progress import is_progress
from pipeline.dialects.speakers import speaker
from pipeline.dialects.wire_values import number_or_none, text_or_none
from topics.json_text import Fields, object_of, objects, present

OPEN: Final = "answer"
PLACES: Final = ("output_index", "content_index", "summary_index")
TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
FAILED: Final = frozenset({"response.failed", "error"})
OPENING: Final = frozenset({"response.queued", "response.in_progress"})
ITEMS: Final = frozenset({"response.output_item.added", "response.output_item.done"})


@dataclass(slots=True, eq=False)
class Memory:
    """The state of a run, which its handlers share from event to event.

    `answer`: the current call. `is_over`: the newest call had its terminal event, and nothing followed. `ended`: the
    ids of those that had it. `is_raw`: the model's own events are in the stream. `agent`: the current agent; `moved`:
    the target of a hand-off.
    """

    answer: Output | None = None
    last_id: str | None = None
    is_over: bool = False
    is_raw: bool = False
    agent: str = ""
    moved: str | None = None
    ended: set[str] = field(default_factory=set)


def raw(builder: Builder, event: Fields) -> None:
    """Handle an event of the Responses API."""
    memory: Memory = builder.scratch["memory"]
    data = event["data"]
    kind = data["type"] + ""
    response = object_of(data.get("response"))
    if kind in FAILED or kind in TERMINAL:
        if memory.is_over and kind in FAILED:
            builder.system("error", _error_of(data, response))
        elif memory.is_over:
            return
        elif kind in FAILED:
            _fail(builder, data, response)
        else:
            _end(builder, response)
        return
    if kind == "response.created":
        _begin(builder, response)
    elif not (_is_read(kind) or is_progress(kind)):
        builder.system(f"custom:openai-agents.{kind}", {key: value for key, value in data.items() if key != "type"})
    elif memory.is_over and _is_read(kind) and kind not in OPENING:
        raise Violation(f"{kind}: the response is over")
    elif not memory.is_over and kind.startswith("response."):
        answer = memory.answer or _open(builder, None)
        if OPEN not in builder.open_text:  # cleared when events are missing
            builder.open_text[OPEN] = Part({"part_kind": "text", "content": ""})
            for item in answer.items:  # their continuation would lack a piece
                item.grown.clear()
            answer.response.parts.clear()
        _take(answer, data, builder.at)


def _is_read(kind: str) -> bool:
    """Return True if the kind of an event between the first and the terminal one is known here."""
    return kind in DELTA_PIECES or kind in ITEMS or kind in WHOLE_PIECES or kind in OPENING


def _take(answer: Output, event: Fields, at: int) -> None:
    """Handle an event between the first and the terminal one; an unknown kind is ignored."""
    kind = event["type"]
    if kind in DELTA_PIECES:
        piece, index_key = DELTA_PIECES[kind]
        answer.grow(event, piece, number_or_none(event.get(index_key)) or 0, event["delta"] + "", at)
    elif kind == "response.output_item.added":
        answer.add(event)
    elif kind == "response.output_item.done":
        parts(event["item"])  # raises where it is malformed
        answer.finish(event)
        answer.response.first_part_at = answer.response.first_part_at or at
    elif kind in WHOLE_PIECES:
        piece, index_key, text_key = WHOLE_PIECES[kind]
        if isinstance(event.get(text_key), str):
            answer.tell(event, piece, number_or_none(event.get(index_key)) or 0, event[text_key])


def raws(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive deltas of one text (a Stretch). Numbers are compared as objects: True is not 1."""
    memory: Memory = builder.scratch["memory"]
    first = events[start].get("data")
    if memory.answer is None or memory.is_over or OPEN not in builder.open_text or first.__class__ is not dict:
        return start
    name = first.get("type")
    if name.__class__ is not str or name not in DELTA_PIECES:
        return start
    piece, index_key = DELTA_PIECES[name]
    part = memory.answer.growing(first, piece, number_or_none(first.get(index_key)) or 0)
    if part is None:
        return start
    item, places = first.get("item_id"), [first.get(key) for key in PLACES]
    texts = []
    for at in range(start, len(events)):
        event = events[at]
        if event.__class__ is not dict or event.get("type") != "raw_response_event":
            break
        data = event.get("data")
        if data.__class__ is not dict or data.get("type") != name or data.get("item_id") != item:
            break
        text = data.get("delta")
        if text.__class__ is not str or not all(map(is_, map(data.get, PLACES), places)):
            break
        texts.append(text)
    if texts:
        part.chunks.append("".join(texts))
    return start + len(texts)


def _begin(builder: Builder, response: Fields) -> None:
    """Begin a call, unless the event repeats the beginning of the current one, or of the one that has just ended."""
    memory: Memory = builder.scratch["memory"]
    response_id = response.get("id")
    is_same = response_id is not None and response_id == memory.last_id and response_id != FAKE_ID
    if is_same and (memory.is_over or memory.answer is not None):
        return
    if memory.answer is not None:
        memory.answer.settle(whole=False)
    _name(_open(builder, response_id), response)


def _open(builder: Builder, response_id: Any) -> Output:
    memory: Memory = builder.scratch["memory"]
    builder.close_response()
    response = Message("response", builder.at, fields={"agent_id": speaker(builder, memory.agent)})
    builder.messages.append(response)
    memory.answer = Output(response, read=read)
    builder.open_text[OPEN] = Part({"part_kind": "text", "content": ""})
    memory.last_id = text_or_none(response_id)
    memory.is_over, memory.is_raw = False, True
    builder.ended = builder.error_text = None
    return memory.answer


def _name(answer: Output, response: Fields) -> None:
    fields, response_id = answer.response.fields, text_or_none(response.get("id"))
    fields |= present({"model_name": text_or_none(response.get("model"))})
    fields |= present({"provider_response_id": None if response_id == FAKE_ID else response_id})


def _end(builder: Builder, response: Fields) -> None:
    """End the call by the terminal event: its output is the content, if it has any."""
    memory: Memory = builder.scratch["memory"]
    response_id = text_or_none(response.get("id"))
    if memory.answer is None and response_id in memory.ended:
        return  # the same event again
    answer = memory.answer or _open(builder, response_id)
    answer.final = objects(response.get("output"))
    _settle(answer)
    fields = answer.response.fields
    _name(answer, response)
    if response_id is not None and response_id != FAKE_ID:
        memory.ended.add(response_id)
    fields |= present({"usage": usage_of(response, answer.final)})
    details = response.get("incomplete_details")
    if response.get("status") == "incomplete" or details:
        reason = object_of(details).get("reason")
        fields["finish_reason"] = ends.finish(ends.RESPONSES, str(reason))
    settle(builder)
    memory.is_over = True


def _fail(builder: Builder, event: Fields, response: Fields) -> None:
    """Fail the call: its output so far is not in the conversation."""
    memory: Memory = builder.scratch["memory"]
    data = _error_of(event, response)
    builder.system("error", data)
    builder.error_text = text_or_none(data.get("message", data.get("code")))
    builder.ended = "error"
    memory.answer, memory.is_over = None, True


def _error_of(event: Fields, response: Fields) -> Fields:
    error = response.get("error") or event.get("error")
    error = error if isinstance(error, dict) else event
    return {key: error[key] for key in ("code", "message", "param") if error.get(key) is not None}


def settle(builder: Builder) -> None:
    """Settle the open call: from now on its calls can be answered, and facts beside it are added."""
    memory: Memory = builder.scratch["memory"]
    answer, memory.answer = memory.answer, None
    if answer is None:
        return
    if not answer.settled and builder.lossy:
        answer.settle(whole=False)
        return
    _settle(answer)
    answer.response.last_at = builder.at
    for part in answer.calls():
        builder.calls[part.fields["tool_call_id"]] = (answer.response, part)
    for item in answer.final:
        for event_type, data in sources(item):
            builder.system(event_type, data)
    for item in filter(is_beside, answer.final):
        builder.system(f"custom:{item['type']}", item)


def _settle(answer: Output) -> None:
    """Settle a call that is whole; one of a tool whose arguments were cut off is dropped."""
    answer.settle(whole=True)
    for call in answer.calls():
        call.done = call.fields.get(META, {}).get("status") != "incomplete"
