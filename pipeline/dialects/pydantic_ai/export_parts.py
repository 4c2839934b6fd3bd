"""Conversion of ThreadProtocol parts to Pydantic AI's (2.68), by kind, for requests and for responses.

Each function returns a list: empty if Pydantic AI can't express the part.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from pipeline.dialects.pydantic_ai.keys import ARGS, ARGS_STYLES, ARGS_TEXT, INVALID
from pipeline.dialects.signatures import signature_of
from pipeline.dialects.wire_values import is_number
from pipeline.turns.media_kinds import URL_KINDS, url_kind
from topics.json_text import Fields, present

TO_URL_BASE64: Final = str.maketrans("+/", "-_")
USAGE_ONLY_HERE: Final = frozenset({"thinking_tokens", "total_tokens"})
COUNTS: Final = frozenset(
    {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens"}
    | {"output_reasoning_tokens", "input_audio_tokens", "output_audio_tokens", "cache_audio_read_tokens"}
)
CONTENT_KINDS: Final = frozenset(
    {*URL_KINDS, "binary"} | {"uploaded-file", "text-content", "structured-content", "cache-point"}
)

# Fields of each kind of part. Pydantic AI knows no others.
_PROVIDER: Final = ("id", "provider_name", "provider_details")
_CALL: Final = ("tool_name", "args", "tool_call_id", "tool_kind", *_PROVIDER, "otel_metadata")
_RETURN: Final = ("tool_name", "content", "tool_call_id", "tool_kind", "metadata", "timestamp", "outcome")
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("content", *_PROVIDER, "citations"),
    "thinking": ("content", "signature", *_PROVIDER),
    "tool-call": _CALL,
    "builtin-tool-call": _CALL,
    "tool-return": (*_RETURN, "retry", "tools"),
    "builtin-tool-return": (*_RETURN, "provider_name", "provider_details"),
    "retry-prompt": ("content", "tool_name", "tool_call_id", "timestamp"),
    "user-prompt": ("content", "timestamp"),
    "file": ("content", *_PROVIDER),
}
# Kinds that only Pydantic AI has. They are exported unchanged.
OWN_REQUEST_KINDS: Final = frozenset(
    {"retry-feedback", "tool-availability-delta", "capability-load-delta", "model-settings-delta"}
    | {"instruction-delta", "instruction-baseline", "compaction", "speech"}
)
OWN_RESPONSE_KINDS: Final = frozenset({"compaction", "speech"})


def request_part(part: Fields, at: str | None) -> list[Fields]:
    """Return a part of a user turn or of a request; `at`: its time if it has none of its own (ISO 8601)."""
    kind = part.get("part_kind", "")
    if kind in OWN_REQUEST_KINDS:
        return [_own(part)]
    convert = REQUEST_PARTS.get(kind)
    return [_timed(fields, at) for fields in convert(part)] if convert else []


def response_part(part: Fields, at: str | None) -> list[Fields]:
    """Return a part of a response; `at` as in `request_part`."""
    kind = part.get("part_kind", "")
    if kind in OWN_RESPONSE_KINDS:
        return [_own(part)]
    convert = RESPONSE_PARTS.get(kind)
    converted = convert(part) if convert else []
    return [_timed(each, at) for each in converted] if kind == "builtin-tool-return" else converted


def usage(counts: Any, *, own: bool) -> Fields | None:
    """Return a response's usage as RequestUsage. `own`: it came from Pydantic AI, so all its counts are kept."""
    if not isinstance(counts, dict):
        return None
    known = {key: value for key, value in counts.items() if key not in USAGE_ONLY_HERE and value is not None}
    if not own:
        known = {key: int(value) for key, value in known.items() if key in COUNTS and is_number(value)}
        cost = counts.get("cost")
        total = cost.get("total") if isinstance(cost, dict) else cost
        if is_number(total):
            known["cost"] = str(total)
    details = known.get("details")
    has_reasoning = "output_reasoning_tokens" in known or (isinstance(details, dict) and "reasoning_tokens" in details)
    if is_number(counts.get("thinking_tokens")) and not has_reasoning:
        known["output_reasoning_tokens"] = int(counts["thinking_tokens"])
    return known


def _call(part: Fields) -> list[Fields]:
    signature = signature_of(part) if "provider_details" not in part else None
    google = {"provider_name": "google", "provider_details": {"thought_signature": signature}}
    return [{**_chosen(part), "args": _call_args(part), **(google if signature is not None else {})}]


def _call_args(part: Fields) -> Any:
    """Return a call's arguments: as text if they were text or are no object (Pydantic AI has text or an object)."""
    args, style = part.get("args"), part.get(ARGS)
    if style in ("none", "empty"):
        return None if style == "none" else ""
    if style == "text":
        return part.get(ARGS_TEXT, "")
    if style in ARGS_STYLES:
        return json.dumps(args, **ARGS_STYLES[style])
    if not isinstance(args, dict):
        return args if isinstance(args, str) or args is None else json.dumps(args, **ARGS_STYLES["compact"])
    invalid = args.get(INVALID)
    return invalid if isinstance(invalid, str) and len(args) == 1 else args


# ---- functions in REQUEST_PARTS and RESPONSE_PARTS


def _own(part: Fields) -> Fields:
    return {key: value for key, value in part.items() if not key.startswith("meta:")}


def _chosen(part: Fields) -> Fields:
    kind = part["part_kind"]
    return {**{key: part[key] for key in FIELDS[kind] if part.get(key) is not None}, "part_kind": kind}


def _timed(part: Fields, at: str | None) -> Fields:
    if at is not None and "timestamp" not in part and "timestamp" in FIELDS.get(part["part_kind"], ()):
        part["timestamp"] = at
    return part


def _thinking(part: Fields) -> list[Fields]:
    return [{**_chosen(part), "content": part.get("content") or "", **present({"id": part.get("thinking_id")})}]


def _return(part: Fields) -> list[Fields]:
    fields = {**_chosen(part), "content": _returned(part)}
    status = part.get("status", "success")
    if "outcome" not in fields and status != "success":
        fields["outcome"] = "retried" if status == "validation_error" else "failed"
        if status == "validation_error":
            fields["retry"] = {"cause": "validation_error"}
    return [fields]


def _returned(part: Fields) -> Any:
    """Return a tool's result, or the reference to its stored content."""
    reference = part.get("content_ref")
    return {"content_ref": reference} if "content" not in part and reference is not None else part.get("content")


def _retry(part: Fields) -> list[Fields]:
    content = part.get("content", "")
    if isinstance(content, list):
        content = [_error_details(item) for item in content]
    return [{**_chosen(part), "content": content}]


def _error_details(item: Any) -> Fields:
    """Return a validation error with all fields that Pydantic AI requires: type, loc, msg and input."""
    error = item if isinstance(item, dict) else {"msg": str(item)}
    loc = error.get("loc", error.get("field", []))
    return {
        "type": str(error.get("type", "value_error")),
        "loc": loc if isinstance(loc, list) else [str(loc)],
        "msg": str(error.get("msg", error.get("message", error.get("error", "")))),
        "input": error.get("input"),
        **({"ctx": error["ctx"]} if isinstance(error.get("ctx"), dict) else {}),
    }


def _prompt(part: Fields) -> list[Fields]:
    content = part.get("content", "")
    if isinstance(content, list):
        content = [piece for item in content for piece in _user_content(item)]
    return [{**_chosen(part), "content": content}]


def _file_prompt(part: Fields) -> list[Fields]:
    content = _user_content(_as_content(part.get("content")))
    return [{"content": content, "part_kind": "user-prompt"}] if content else []


def _user_content(item: Any) -> list[Any]:
    if isinstance(item, str):
        return [item]
    if not isinstance(item, dict) or item.get("kind") not in CONTENT_KINDS:
        return []
    fields = {key: value for key, value in item.items() if not key.startswith("meta:")}
    return [_binary(fields)] if fields["kind"] == "binary" else [fields]


def _binary(content: Fields) -> Fields:
    return {**content, "data": content["data"].translate(TO_URL_BASE64)}


def _as_content(content: Any) -> Any:
    """Return a file's content, by value or by address, as user content."""
    if not isinstance(content, dict):
        return None
    media_type = content.get("media_type") or content.get("content_type") or content.get("mediaType")
    url = content.get("url")
    if isinstance(content.get("data"), str):
        return {"kind": "binary", "media_type": media_type or "application/octet-stream", **content}
    if not isinstance(url, str):
        return None
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if not head.endswith(";base64"):
            return None
        media_type = media_type or head.removesuffix(";base64") or "application/octet-stream"
        return {"kind": "binary", "data": data, "media_type": media_type}
    kind = url_kind(str(media_type))
    return {"kind": kind, "url": url, **({"media_type": media_type} if media_type else {})}


def _file(part: Fields) -> list[Fields]:
    """Return a file of a response. Pydantic AI has these only by value."""
    content = _as_content(part.get("content"))
    if content is None or content["kind"] != "binary":
        return []
    return [{**_chosen(part), "content": _binary(content)}]


REQUEST_PARTS: Final[dict[str, Callable[[Fields], list[Fields]]]] = {
    "user-prompt": _prompt,
    "text": lambda part: [{"content": part.get("content") or "", "part_kind": "user-prompt"}],
    "file": _file_prompt,
    "tool-return": _return,
    "retry-prompt": _retry,
}
RESPONSE_PARTS: Final[dict[str, Callable[[Fields], list[Fields]]]] = {
    "text": lambda part: [{**_chosen(part), "content": part.get("content") or ""}],
    "thinking": _thinking,
    "tool-call": _call,
    "builtin-tool-call": _call,
    "builtin-tool-return": lambda part: [{**_chosen(part), "content": _returned(part)}],
    "file": _file,
}
