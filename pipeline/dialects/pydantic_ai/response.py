"""The model's responses in Pydantic AI's event stream: part_start, part_delta, part_end, by the part's index.

A response begins at a part_start without `previous_part_kind`, and ends at a part_end without `next_part_kind` or with
the first tool event. Every part stays open until then: deltas of a part may follow its premature part_end.
"""

from collections.abc import Callable
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Part
from pipeline.dialects.pydantic_ai.keys import ARGS, ARGS_TEXT, EMPTY, INVALID
from pipeline.dialects.pydantic_ai.messages import part
from topics.json_text import Fields, present
from topics.part_kinds import CALLS

STREAMED: Final = frozenset({"text", "thinking", "tool-call", "builtin-tool-call"})  # kinds that get a part_end
TEXTUAL: Final = frozenset({"text", "thinking"})  # kinds of deltas
# Keys of the dialect's state (builder.scratch), about the newest response:
LAST: Final = "last"  # the part that started last
STEP: Final = "step"  # ids of the executed calls, in that order
FINAL: Final = "final"  # id of the call that is the run's answer, according to the SDK


def part_start(builder: Builder, event: Fields) -> None:
    """Begin a part of a new response, a further part, or the replacement of one."""
    key, raw = str(int(event["index"])), event["part"]
    fields = part(raw)
    if event.get("previous_part_kind") is None or builder.response is None:
        abandon(builder)
        close(builder)
        builder.open_response()
        builder.scratch.pop(STEP, None)
        builder.scratch.pop(FINAL, None)
    target = builder.open_text.get(key)
    if target is None:
        target = builder.add_part(fields)
        _move_to_index(builder, target, int(key))
    _fill(target, raw, fields)
    target.done = raw["part_kind"] not in STREAMED
    builder.open_text[key] = target
    builder.scratch[LAST] = target


def part_delta(builder: Builder, event: Fields) -> None:
    """Extend an open part."""
    part, delta = builder.open_text[str(event["index"])], event["delta"]
    EXTEND[delta["part_delta_kind"]](part, delta)
    fields = part.fields
    fields |= present({"provider_name": delta.get("provider_name")})
    if delta.get("provider_details") is not None:
        fields["provider_details"] = {**(fields.get("provider_details") or {}), **delta["provider_details"]}


def part_deltas(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive plain deltas of a text or thinking at once (a Stretch); return the index after them."""
    deltas = []
    try:
        index, kind = events[start]["index"], events[start]["delta"]["part_delta_kind"]
        part = builder.open_text[str(index)]
        if type(index) is not int or kind not in TEXTUAL:
            return start
        for event in map(events.__getitem__, range(start, len(events))) if start else events:
            delta = event["delta"]
            content = delta["content_delta"]
            if (
                event["event_kind"] != "part_delta"
                or event["index"] != index
                or type(event["index"]) is not int
                or delta["part_delta_kind"] != kind
                or type(content) is not str
                or not content
                or delta.get("provider_name") is not None
                or delta.get("provider_details") is not None
                or delta.get("signature_delta") is not None
            ):
                break
            deltas.append(content)
    except (KeyError, TypeError, AttributeError):  # another kind of event; its handler raises any error
        pass
    if deltas:
        part.chunks.append("".join(deltas))
        part.fields.pop(EMPTY, None)
    return start + len(deltas)


def part_end(builder: Builder, event: Fields) -> None:
    """Replace the part by the event's. The end of the last part ends the response."""
    raw = event["part"]
    target = builder.open_text[str(event["index"])]
    if raw["part_kind"] == target.fields["part_kind"] and raw.get("tool_call_id") == target.fields.get("tool_call_id"):
        _fill(target, raw, part(raw))
    # Arguments that are not JSON yet may continue: they are parsed once the response is over.
    target.done = not (
        target.chunks and isinstance(target.fields.get("args"), dict) and INVALID in target.fields["args"]
    )
    if event.get("next_part_kind") is None:
        close(builder)


def _fill(target: Part, raw: Fields, fields: Fields) -> None:
    """Set a part's current content. Arguments that are text stay text until they are complete."""
    target.fields = fields
    target.chunks = []
    if fields["part_kind"] in CALLS and isinstance(raw.get("args"), str):
        target.chunks.append(raw["args"])


def _move_to_index(builder: Builder, added: Part, index: int) -> None:
    """Move a new part to the position of its index: a call whose name came late begins after later parts."""
    before = sum(1 for key in builder.open_text if int(key) < index)
    response = builder.current_response()
    if before < len(response.parts) - 1:
        response.parts.remove(added)
        response.parts.insert(before, added)


def _text_delta(target: Part, delta: Fields) -> None:
    target.chunks.append(delta["content_delta"] + "")
    target.fields.pop(EMPTY, None)


def _thinking_delta(target: Part, delta: Fields) -> None:
    if delta.get("content_delta"):
        _text_delta(target, delta)
    if delta.get("signature_delta") is not None:
        target.fields["signature"] = delta["signature_delta"]


def _call_delta(target: Part, delta: Fields) -> None:
    args, fields = delta.get("args_delta"), target.fields
    call_id = delta.get("tool_call_id") or fields["tool_call_id"]
    if not isinstance(call_id, str):
        raise TypeError("tool_call_id must be a string")
    if isinstance(args, str):
        target.chunks.append(args)
    elif isinstance(args, dict):
        fields["args"] = {**(fields["args"] or {}), **args}
        fields.pop(ARGS, None)
    fields["tool_name"] += delta.get("tool_name_delta") or ""
    fields["tool_call_id"] = call_id


def _speech_delta(target: Part, delta: Fields) -> None:
    text = delta.get("transcript")
    if text is None and delta.get("transcript_delta") is not None:
        text = (target.fields.get("transcript") or "") + delta["transcript_delta"]
    if text is not None:
        target.fields["transcript"] = text


EXTEND: Final[dict[str, Callable[[Part, Fields], None]]] = {
    "text": _text_delta,
    "thinking": _thinking_delta,
    "tool_call": _call_delta,
    "speech": _speech_delta,
}


def close(builder: Builder) -> None:
    """End the response: parse arguments that came as text."""
    settle(builder)
    for target in builder.open_text.values():
        target.done = target.done or target.fields["part_kind"] in CALLS
    builder.close_response()


def settle(builder: Builder) -> None:
    """Parse the arguments of open calls."""
    for target in builder.open_text.values():
        if target.fields["part_kind"] in CALLS and target.chunks:
            known = {k: v for k, v in target.fields.items() if k not in ("args", ARGS, ARGS_TEXT)}
            target.fields = part({**known, "args": "".join(target.chunks)})


def abandon(builder: Builder) -> None:
    """Drop an unfinished response before a new one starts: the SDK has retried it."""
    last = builder.scratch.get(LAST)
    if builder.response is not None and last is not None and not last.done and last in builder.response.parts:
        builder.messages.remove(builder.response)
        builder.response = None
        builder.open_text.clear()
