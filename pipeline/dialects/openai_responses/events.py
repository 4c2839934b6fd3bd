"""OpenAI's Responses API, streamed (dialect `openai-responses`), as OpenAI and the servers that speak it write it.

| event | what it does |
|---|---|
| turnmill.request | a call begins; its new input is the request after the previous response |
| turnmill.error | the server refused the call: interrupted, unless another call follows |
| response.created, response.queued, response.in_progress | begins a response; a new id begins another call |
| response.output_item.added, response.output_item.done | an item; when done, it replaces what its deltas built |
| response.output_text.delta, response.refusal.delta, .done | text |
| response.reasoning_summary_text.delta, response.reasoning_text.delta, .done | thinking |
| response.function_call_arguments.delta, .done; the same of mcp_call, custom_tool_call | the arguments of a call |
| response.code_interpreter_call_code.delta, .done | the code of a call |
| the same of shell_call_command, apply_patch_call_operation_diff | the commands of a call, its patch |
| response.completed | the call ended well; its output, if any, replaces all before but finished items of other types |
| response.incomplete | the same, cut short by the server, with the reason; `steered`: another response follows |
| response.failed, error, `error` without a type | the call failed: interrupted, unless another call follows |
| a response object, as one event | a whole answer |
| a response object whose status is queued or in_progress | begins a response: its answer is still to come |
| progress of items and of the server's tools, keepalive | nothing: the item contains it |
| codex.compacted, of an imported session | SystemMessage data-app-codex.compacted, and its tokens beside the answer |
| an error behind the end of a call | SystemMessage `error`: the answer stays whole |
| an item or a delta behind the end of a call | refused: it belongs to no answer |
| any other | SystemMessage data-app-TYPE |

Over a WebSocket, several calls may be under way at the same time, each in a lane that its events name (`stream_id`).
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Stretch, Violation, nothing
from pipeline.dialects import ends, model_calls
from pipeline.dialects.model_calls import Calls, calls_of
from pipeline.dialects.openai_responses.keys import note
from pipeline.dialects.openai_responses.output import Output
from pipeline.dialects.openai_responses.request import READER
from pipeline.dialects.openai_responses.usage import usage_of
from pipeline.dialects.responses_progress import is_progress
from pipeline.dialects.wire_values import number_or_none, tell_names
from topics.json_text import Fields, object_of, objects

STEERED: Final = "steered"  # by the user: the answer to what they have said then follows, as another response
UNFINISHED: Final = ("queued", "in_progress")  # the first states of an answer in the background
IDENTITY: Final = {"id": "provider_response_id", "model": "model_name"}
READ_KEYS: Final = frozenset(
    {"id", "model", "output", "usage", "error", "object", "created_at", "tools", "instructions", "input"}
)


def created(builder: Builder, event: Fields) -> None:
    """Begin a response."""
    calls = _calls_of(builder, event)
    response = object_of(event.get("response"))
    known = calls.response.fields.get("provider_response_id") if calls.response is not None else None
    other = known is not None and response.get("id") not in (None, known)
    if event["type"] == "response.created" and other and (calls.whole or calls.answer.items):
        model_calls.settle_newest(builder)
        model_calls.next_call(builder)
    if _output(builder, calls) is not None:
        _describe(builder, response)


def added(builder: Builder, event: Fields) -> None:
    """Begin an item."""
    _writing(builder, event).add(event)


def done(builder: Builder, event: Fields) -> None:
    """End an item."""
    _writing(builder, event).finish(event)


def _delta(kind: str, index_key: str) -> Handler:
    def delta(builder: Builder, event: Fields) -> None:
        text = event["delta"]
        if not isinstance(text, str):
            raise Violation(f"{event['type']}: 'delta' is a text, got {text!r:.80}")
        _writing(builder, event).grow(event, kind, _index_of(event, index_key), text, builder.at)

    return delta


def _deltas(kind: str, index_key: str) -> Stretch:
    def deltas(builder: Builder, events: list[Any], start: int) -> int:
        """Append consecutive deltas of a piece. Numbers are compared as objects: True is not 1."""
        first, calls = events[start], calls_of(builder)
        output: Output | None = calls.answer
        lane = first.get("stream_id")
        if output is None or output.settled or calls.whole or lane != calls.lane:
            return start
        part = output.growing(first, kind, _index_of(first, index_key))
        if part is None:
            return start
        name, item, index, number = (first.get(key) for key in ("type", "item_id", "output_index", index_key))
        texts = []
        for at in range(start, len(events)):
            event = events[at]
            if event.__class__ is not dict or event.get("type") != name or event.get("item_id") != item:
                break
            text = event.get("delta")
            if lane is not None and event.get("stream_id") != lane:
                break
            if (
                event.get("output_index") is not index
                or event.get(index_key) is not number
                or text.__class__ is not str
            ):
                break
            texts.append(text)
        if texts:
            part.chunks.append("".join(texts))
        return start + len(texts)

    return deltas


def _whole(kind: str, index_key: str, key: str) -> Handler:
    def whole(builder: Builder, event: Fields) -> None:
        text = event.get(key)
        if isinstance(text, str):
            _writing(builder, event).tell(event, kind, _index_of(event, index_key), text)

    return whole


def ended(builder: Builder, event: Fields) -> None:
    """End a call by its terminal event."""
    _terminal(
        builder, _calls_of(builder, event), object_of(event.get("response")), event["type"].removeprefix("response.")
    )


def error(builder: Builder, event: Fields) -> None:
    """Fail the call: the server gave up in mid-stream, or sent an error after its answer."""
    calls = _calls_of(builder, event)
    error = event.get("error") or {key: value for key, value in event.items() if key not in ("type", "sequence_number")}
    if calls.whole:
        builder.system("error", {"error": error})
        return
    model_calls.settle_newest(builder)
    model_calls.fail(builder, error)


def unknown(builder: Builder, event: Fields) -> None:
    """Ignore progress, and keep any other event of an unknown type: protocols grow."""
    calls = _calls_of(builder, event)
    kind = event.get("type")
    if kind is None and event.get("object") == "response" and event.get("status") in UNFINISHED:
        created(builder, {"type": f"response.{event['status']}", "response": event})
    elif kind is None and event.get("object") == "response":
        _terminal(builder, calls, event, str(event.get("status") or "completed"))
    elif kind is None and event.get("error"):
        error(builder, event)
    elif not isinstance(kind, str):
        raise Violation(f"an event's 'type' is a text, got {kind!r:.80}")
    elif not is_progress(kind):
        model_calls.ask_first(builder)
        builder.system(f"data-app-{kind}", {key: value for key, value in event.items() if key != "type"})


def compacted(builder: Builder, event: Fields) -> None:
    """Count the tokens of Codex's compaction, which is a call beside the answer, and keep what it tells of it."""
    _calls_of(builder, event)
    shown, usage, model = event, event.get("usage"), event.get("model")
    if isinstance(usage, dict):
        shown = {key: value for key, value in event.items() if key not in ("usage", "model")}
        builder.beside("compaction", usage, model=model if isinstance(model, str) else None)
    unknown(builder, shown)


def _terminal(builder: Builder, calls: Calls, response: Fields, status: str) -> None:
    output = _output(builder, calls)
    if output is None:
        return
    _describe(builder, response)
    output.final = objects(response.get("output"))
    usage = usage_of(response, output.final or [item.done or item.hollow for item in output.items])
    if usage is not None:
        builder.usage(usage, output.response)
    output.response.last_at = builder.at
    if status in ("failed", "cancelled"):
        model_calls.settle_newest(builder)
        model_calls.fail(builder, response.get("error") or status)
        return
    reason = object_of(response.get("incomplete_details") if status == "incomplete" else None).get("reason")
    if status == "incomplete":
        output.response.fields["finish_reason"] = ends.finish(ends.RESPONSES, reason) if reason else "length"
    model_calls.end_call(builder, awaits=False)
    model_calls.settle_newest(builder)
    model_calls.end_call(builder, awaits=bool(output.calls()) or reason == STEERED)
    if builder.ended == "complete" and list(builder.scratch["lanes"]) != [None]:
        builder.ended = None  # other calls may be under way, or follow


def begin(builder: Builder) -> None:
    """Prepare for a run."""
    model_calls.begin(builder, READER)
    builder.scratch["lanes"] = {None: calls_of(builder)}


def finish(builder: Builder, end: str) -> None:
    """Finish the calls of all lanes; a lane that has not ended decides how the run ends."""
    lanes: dict[Any, Calls] = builder.scratch["lanes"]
    for calls in lanes.values():
        builder.scratch["calls"] = calls
        calls.settle(builder)
    used = [calls for calls in lanes.values() if calls.answer is not None] or list(lanes.values())
    builder.scratch["calls"] = next((calls for calls in used if not calls.whole), used[-1])
    model_calls.finish(builder, end)


def _calls_of(builder: Builder, event: Fields) -> Calls:
    """Return the calls of an event's lane, which become the newest."""
    calls = calls_of(builder)
    return calls if calls.lane is None and "stream_id" not in event else _in_lane(builder, event.get("stream_id"))


def _in_lane(builder: Builder, lane: Any) -> Calls:
    """Return the calls of a lane, which become the newest. Any `stream_id` but a text is as none: the lane None."""
    lanes, calls = builder.scratch["lanes"], calls_of(builder)
    lane = lane if isinstance(lane, str) else None
    if lane not in lanes and len(lanes) == 1 and calls.answer is None:
        lanes[lane] = lanes.pop(calls.lane)  # the only calls so far have no answer: they get this name
    elif lane not in lanes:
        lanes[lane] = Calls(READER, calls.settle, items=[])
    lanes[lane].lane = lane
    builder.scratch["calls"] = lanes[lane]
    return calls_of(builder)


def _output(builder: Builder, calls: Calls) -> Output | None:
    """Return the output that is being written; None after its end."""
    if calls.whole or (calls.answer is not None and calls.answer.settled):
        return None
    response = model_calls.open_response(builder)
    if calls.answer is None:
        calls.answer = Output(response)
    output: Output = calls.answer
    return output


def _writing(builder: Builder, event: Fields) -> Output:
    """Return the output that gets a piece of an answer. Raises Violation after its end."""
    output = _output(builder, _calls_of(builder, event))
    if output is None:
        raise Violation(f"{event['type']}: the call is over")
    return output


def _describe(builder: Builder, response: Fields) -> None:
    fields = calls_of(builder).answer.response.fields
    tell_names(fields, response, IDENTITY)
    note(
        fields, {key: value for key, value in response.items() if key not in READ_KEYS and value not in (None, [], {})}
    )


def _index_of(event: Fields, key: str) -> int:
    return number_or_none(event.get(key)) or 0


PIECES: Final = {
    "output_text": ("output_text", "content_index", "text"),
    "refusal": ("refusal", "content_index", "refusal"),
    "reasoning_summary_text": ("summary", "summary_index", "text"),
    "reasoning_text": ("reasoning", "content_index", "text"),
    "function_call_arguments": ("arguments", "", "arguments"),
    "mcp_call_arguments": ("arguments", "", "arguments"),
    "custom_tool_call_input": ("input", "", "input"),
    "code_interpreter_call_code": ("code", "", "code"),
    "shell_call_command": ("command", "command_index", "command"),
    "apply_patch_call_operation_diff": ("diff", "", "diff"),
}
DELTA_PIECES: Final = {f"response.{name}.delta": (kind, key) for name, (kind, key, _) in PIECES.items()}
WHOLE_PIECES: Final = {f"response.{name}.done": piece for name, piece in PIECES.items()}
HANDLERS: Final[dict[str, Handler]] = {
    model_calls.REQUEST: model_calls.request,
    model_calls.ERROR: model_calls.refused,
    **{f"response.{name}": created for name in ("created", "queued", "in_progress")},
    "response.output_item.added": added,
    "response.output_item.done": done,
    **{name: _delta(kind, index_key) for name, (kind, index_key) in DELTA_PIECES.items()},
    **{name: _whole(kind, index_key, key) for name, (kind, index_key, key) in WHOLE_PIECES.items()},
    **{f"response.{name}": ended for name in ("completed", "incomplete", "failed")},
    "error": error,
    "keepalive": nothing,
    "codex.compacted": compacted,
}
STRETCHES: Final[dict[str | None, Stretch]] = {
    name: _deltas(kind, index_key) for name, (kind, index_key) in DELTA_PIECES.items()
}
