"""ThreadProtocol parts -> parts of Gemini contents."""

from __future__ import annotations

from typing import Any, Final

from pipeline.dialects.google_adk.parts import CODE, META, SIGNATURE
from topics import json_text
from topics.json_text import Fields
from topics.part_kinds import CALLS

USAGE: Final = {
    "input_tokens": "promptTokenCount",
    "output_tokens": "candidatesTokenCount",
    "thinking_tokens": "thoughtsTokenCount",
    "cache_read_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}


def part_of(part: Fields, *, is_own: bool) -> list[Fields]:
    """Return a part of a response; empty if ADK has no such part. `is_own`: it came from ADK, with its signatures."""
    kind = part.get("part_kind")
    signature = part.get("signature" if kind == "thinking" else SIGNATURE)
    signed = {"thoughtSignature": signature} if is_own and signature is not None else {}
    if kind == "text":
        return [_restored({"text": part.get("content") or "", **signed}, part)]
    if kind == "thinking":
        return [_restored({"text": part.get("content") or "", "thought": True, **signed}, part)]
    if kind == "builtin-tool-call" and part.get("tool_name") == CODE and is_own:
        return [
            _restored({"executableCode": {"id": part.get("tool_call_id"), **_object(part.get("args"))}, **signed}, part)
        ]
    if kind in CALLS:
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name"), "args": _object(part.get("args"))}
        meta = part.get(META) or {}
        call |= {key: meta[key] for key in ("willContinue",) if key in meta}
        return [{"functionCall": call, **signed}]
    if kind == "builtin-tool-return":
        if not is_own:
            return [return_part(part)]
        result = {"id": part.get("tool_call_id"), **_object(part.get("content"))}
        return [_restored({"codeExecutionResult": result}, part)]
    if kind == "file":
        return [_restored(restored, part) for restored in _file(part.get("content"))]
    source = part.get("part")
    return [source] if kind == "custom:google-adk" and isinstance(source, dict) else []


def return_part(part: Fields) -> Fields:
    """Return a result. ADK's is an object: other values become its `result`, and failures its `error`."""
    content = part.get("content")
    failed = part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success"
    if not isinstance(content, dict) or content.keys() & {"kind", "url"}:
        content = {"error" if failed else "result": content}
    elif failed and not any(content.get(key) for key in ("error", "isError", "is_error")) and META not in part:
        content = {"error": content}
    answer = {"id": part.get("tool_call_id"), "name": part.get("tool_name") or "tool", "response": content}
    return {"functionResponse": answer}


def prompt_parts(part: Fields) -> list[Fields]:
    """Return the user's prompt, or a request to the model to retry, as parts."""
    if part.get("part_kind") not in ("user-prompt", "retry-prompt"):
        return []
    content = part.get("content")
    pieces = content if isinstance(content, list) else [content]
    return [fields for piece in pieces for fields in _parts_of_content(piece)]


def call_fields(message: Fields) -> Fields:
    """Return model and tokens of a response, as in its Event."""
    usage = message.get("usage") or {}
    counts = {name: usage[key] for key, name in USAGE.items() if usage.get(key) is not None}
    if "thoughtsTokenCount" in counts and "candidatesTokenCount" in counts:
        counts["candidatesTokenCount"] = max(0, counts["candidatesTokenCount"] - counts["thoughtsTokenCount"])
    fields: Fields = {"usageMetadata": counts} if counts else {}
    return fields | ({"modelVersion": message["model_name"]} if message.get("model_name") else {})


def _parts_of_content(piece: Any) -> list[Fields]:
    if isinstance(piece, str):
        return [{"text": piece}]
    if isinstance(piece, dict):
        if piece.get("kind") == "custom:google-adk" and isinstance(piece.get("part"), dict):
            return [piece["part"]]
        return _file(piece) or [{"text": json_text.dumps(piece)}]
    return [] if piece is None else [{"text": json_text.dumps(piece)}]


def _file(content: Any) -> list[Fields]:
    """Return a file by value or by address; empty if it is stored in another way."""
    if not isinstance(content, dict):
        return []
    media_type = content.get("media_type") or content.get("content_type") or "application/octet-stream"
    named = {"displayName": content["meta:filename"]} if content.get("meta:filename") else {}
    if isinstance(content.get("data"), str):
        return [{"inlineData": {"data": content["data"], "mimeType": media_type, **named}}]
    if isinstance(content.get("url"), str):
        return [{"fileData": {"fileUri": content["url"], "mimeType": media_type, **named}}]
    return []


def _restored(written: Fields, part: Fields) -> Fields:
    """Return the part with the fields that only ADK has."""
    return {**written, **(part.get(META) or {})}


def _object(value: Any) -> Fields:
    return value if isinstance(value, dict) else {} if value is None else {"value": value}
