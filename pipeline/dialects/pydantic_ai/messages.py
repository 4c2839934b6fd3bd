"""Conversion of Pydantic AI's messages as JSON (ModelMessagesTypeAdapter, 1.20 to 2.68) to parts and messages.

Parts keep Pydantic's names for fields that ThreadProtocol lacks (`outcome`, `retry`, `timestamp`,
`provider_details`); kinds that it lacks are kept unchanged. A message's fields beside its parts are not part of the
conversation: they are stored under EXACT, which is not hashed, so that the export can restore them exactly.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from pipeline.dialects.pydantic_ai.keys import ARGS, ARGS_STYLES, ARGS_TEXT, EMPTY, INVALID
from pipeline.turns.times import epoch_ms
from topics.json_text import MAYBE_LARGE, Fields, filled, object_of, present
from turnmill.wire import deep_json
from turnmill.wire.nesting import text_too_deep, with_room

VOLATILE: Final = frozenset({"content_file_digests"})  # Pydantic AI computes it again
TOLD: Final = ("input_tokens", "output_tokens")
RESPONSE_FIELDS: Final = ("model_name", "provider_name", "provider_response_id", "finish_reason")
TO_STANDARD_BASE64: Final = str.maketrans("-_", "+/")


class Converted(NamedTuple):
    """One message. `fields`: ThreadProtocol's of a response; `exact`: for EXACT; `at`: epoch ms.

    `at` is None if neither the message nor a part of it has a time.
    """

    kind: str
    at: int | None
    parts: list[Fields]
    fields: Fields
    exact: Fields


def message(raw: Fields) -> Converted:
    """Return a ModelRequest or ModelResponse (JSON) converted. Raises KeyError or TypeError if it isn't one."""
    kind = raw["kind"]
    parts = [part(item) for item in raw["parts"] if item["part_kind"] != "system-prompt"]
    exact = present(raw)
    for key in ("kind", "parts", "usage"):
        exact.pop(key, None)
    exact["timestamp"] = raw.get("timestamp")
    fields: Fields = {}
    if kind == "response":
        for name in RESPONSE_FIELDS:
            if exact.get(name) is None:
                exact[name] = None
            else:
                fields[name] = exact.pop(name)
        details = raw.get("provider_details")
        if exact.get("finish_reason", "") is None and isinstance(details, dict) and details.get("finish_reason"):
            fields["finish_reason"] = None  # a word that Pydantic AI does not know
        if fields.get("finish_reason") == "tool_calls":
            fields["finish_reason"] = "tool_call"
        fields |= filled({"usage": usage(raw.get("usage"))})
    return Converted(kind, _time(raw), parts, fields, exact)


def _time(raw: Fields) -> int | None:
    if (stated := epoch_ms(raw.get("timestamp"))) is not None:
        return stated
    return max((at for item in raw["parts"] if (at := epoch_ms(item.get("timestamp"))) is not None), default=None)


def usage(raw: Any) -> Fields | None:
    """Return the counts of RequestUsage or RunUsage by their names, without zeros, plus `thinking_tokens`."""
    if not isinstance(raw, dict):
        return None
    counts = {key: value for key, value in raw.items() if value not in (None, 0, {}, "")}
    details = raw.get("details")
    thinking = raw.get("output_reasoning_tokens") or (object_of(details).get("reasoning_tokens"))
    if thinking:
        counts["thinking_tokens"] = thinking
    if not counts or (raw.get("unmeasured_requests") and counts.keys().isdisjoint(TOLD)):
        return counts or None  # the provider told no tokens, which is not 0 of them
    return {"input_tokens": raw.get("input_tokens") or 0, "output_tokens": raw.get("output_tokens") or 0} | counts


# ---- parts


def part(raw: Fields) -> Fields:
    """Return a part of a request or a response as ThreadProtocol's. Raises KeyError or TypeError if it isn't one."""
    if not isinstance(raw.get("tool_call_id"), str | None):
        raise TypeError("tool_call_id must be a string")
    if raw["part_kind"] == "tool-call" and raw.get("tool_call_id") is None:
        raise KeyError("tool_call_id")
    convert = PARTS.get(raw["part_kind"])
    return convert(present(raw)) if convert else dict(raw)


def _text_part(raw: Fields) -> Fields:
    return raw if raw.get("content") else {**raw, "content": "", **({} if len(raw) > 2 else {EMPTY: True})}


def _thinking(raw: Fields) -> Fields:
    fields = _text_part(raw)
    return {("thinking_id" if key == "id" else key): value for key, value in fields.items()}


def _call(raw: Fields) -> Fields:
    return {**raw, **arguments(raw.get("args"))}


def _return(raw: Fields) -> Fields:
    status = "success" if raw.get("outcome", "success") == "success" else "error"
    retry = raw.get("retry")
    if raw.get("outcome") == "retried" and isinstance(retry, dict) and retry.get("cause") == "validation_error":
        status = "validation_error"
    return {**_native_return(raw), "status": status}


def _native_return(raw: Fields) -> Fields:
    fields = {key: value for key, value in raw.items() if key not in VOLATILE}
    if fields.get("outcome") == "success":
        del fields["outcome"]
    return {**fields, "content": raw.get("content")}


def _prompt(raw: Fields) -> Fields:
    content = raw.get("content", "")
    return {**raw, "content": [user_content(item) for item in content] if isinstance(content, list) else content}


PARTS: Final[dict[str, Callable[[Fields], Fields]]] = {
    "text": _text_part,
    "thinking": _thinking,
    "tool-call": _call,
    "tool-return": _return,
    "retry-prompt": dict,
    "user-prompt": _prompt,
    "file": lambda raw: {**raw, "content": user_content(raw["content"])},
    "builtin-tool-call": _call,
    "builtin-tool-return": _native_return,
}


def user_content(item: Any) -> Any:
    """Return a piece of user content without nulls, its bytes in standard base64, as the specification asks."""
    if not isinstance(item, dict):
        return item
    fields = present(item)
    if isinstance(fields.get("data"), str) and fields.get("kind", "binary") == "binary":
        fields["data"] = fields["data"].translate(TO_STANDARD_BASE64)
    return fields


def arguments(raw: Any) -> Fields:
    """Return a call's arguments, text or data, as {"args": data} and how they were written.

    Text that is not JSON (or JSON of a mere string, which would pass for text) becomes {"INVALID_JSON": text}, as in
    Pydantic AI's Vercel adapter.
    """
    if raw is None or raw == "":
        return {"args": {}, ARGS: "none" if raw is None else "empty"}
    if not isinstance(raw, str):
        return {"args": raw}
    if text_too_deep(raw):
        return {"args": {INVALID: raw}}
    try:
        data = _data(raw)
    except ValueError:
        return {"args": {INVALID: raw}}
    if isinstance(data, str):
        return {"args": {INVALID: raw}}
    spaced = data.__class__ is dict and data and '": ' in raw  # else there may be no space to tell
    for name, write in (SPACED_FIRST if spaced else WRITE).items():
        if with_room(partial(write, data)) == raw:
            return {"args": data, ARGS: name}
    return {"args": data, ARGS: "text", ARGS_TEXT: raw}


def _data(text: str) -> Any:
    try:
        return READ(text) if MAYBE_LARGE.search(text) else orjson.loads(text)
    except (ValueError, RecursionError):
        return deep_json.loads(text, _no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Made once: `json.loads` and `json.dumps` make a decoder or an encoder for each text.
READ: Final = json.JSONDecoder(parse_constant=_no_constant).decode
WRITE: Final = {name: json.JSONEncoder(**style).encode for name, style in ARGS_STYLES.items()}
SPACED_FIRST: Final = dict(sorted(WRITE.items(), key=lambda style: not style[0].startswith("spaced")))
