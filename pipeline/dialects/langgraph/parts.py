"""The content of LangChain's AI messages, as each provider's package writes it -> ThreadProtocol parts.

What ThreadProtocol has no field for is kept under META, by LangChain's names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pipeline.turns.arguments import arguments
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields

META: Final = "meta:langchain"
CALLS: Final = frozenset({"tool_use", "function_call", "tool_call", "custom_tool_call", "invalid_tool_call"})
STANDING: Final = CALLS | {"tool_call_chunk"}  # those that say all of a call
PIECES: Final = frozenset({"input_json_delta", "tool_call_chunk", "server_tool_call_chunk"})
MEDIA: Final = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def response_parts(message: Fields) -> list[Fields]:
    """An AI message -> its parts: the content in its order, calls where a block stands for them, else behind it."""
    calls = _by_id(message)
    found: list[Fields] = []
    extra = message.get("additional_kwargs")
    if isinstance(extra, dict) and isinstance(extra.get("reasoning_content"), str) and extra["reasoning_content"]:
        thought = {"part_kind": "thinking", "content": extra["reasoning_content"]}
        found.append({**thought, META: {"as": "reasoning_content"}})
    content = message.get("content")
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            found += [{"part_kind": "text", "content": block}] if block else []
        elif isinstance(block, dict):
            found += _block(block, calls)
    return found + [call for same in calls.values() for call in same]


def _by_id(message: Fields) -> dict[str, list[Fields]]:
    """The calls of each id. Only `tool_calls` may have an id twice: other lists tell the same call again."""
    own = len(_objects(message.get("tool_calls")))
    found: dict[str, list[Fields]] = {}
    for number, part in enumerate(_calls(message)):
        same = found.setdefault(str(part["tool_call_id"]), [])
        if number >= own:
            same.clear()
        same.append(part)
    return found


def _calls(message: Fields) -> Iterator[Fields]:
    """Calls, and those whose arguments are no JSON."""
    told = [call for key in ("tool_calls", "invalid_tool_calls") for call in _objects(message.get(key))]
    told = told or _objects(message.get("tool_call_chunks"))
    for call in told or [block for block in _objects(message.get("content")) if str(block.get("type")) in STANDING]:
        name, call_id = call.get("name"), call.get("call_id", call.get("id"))
        given: Any = next((call[key] for key in ("args", "input", "arguments") if call.get(key) is not None), {})
        yield {
            "part_kind": "tool-call",
            "tool_name": name if isinstance(name, str) else "",
            "tool_call_id": call_id if isinstance(call_id, str) else "",
            "args": _arguments(given, invalid=call.get("type") == "invalid_tool_call"),
        }


def _arguments(given: Any, *, invalid: bool) -> Any:
    if not isinstance(given, str):
        return given
    if invalid:
        return {"INVALID_JSON": given}
    return arguments(given)


def _block(block: Fields, calls: dict[str, list[Fields]]) -> list[Fields]:
    kind = str(block.get("type"))
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return _block(block["value"], calls)
    if kind in CALLS:
        same = calls.get(str(block.get("call_id", block.get("id"))))
        return [same.pop(0)] if same else []
    if kind in PIECES:
        return []
    if kind in ("text", "output_text", "text-plain"):
        text = block.get("text")
        cited = block.get("annotations") or block.get("citations")
        said = {"part_kind": "text", "content": text if isinstance(text, str) else ""}
        return [{**said, META: {"annotations": cited}} if cited else said]
    if kind in ("thinking", "reasoning"):
        return _thoughts(block)
    if kind in ("server_tool_use", "server_tool_call", "mcp_tool_use"):
        return [_builtin_call(block, str(block.get("name", "")), _server_args(block))]
    if kind == "server_tool_result" or kind.endswith("_tool_result"):
        return [_builtin_return(block)]
    if kind == "image_generation_call":
        media_type = f"image/{block.get('output_format') or 'png'}"
        return [_file({"base64": block.get("result"), "mime_type": media_type, "type": "image", "id": block.get("id")})]
    if kind.endswith("_call"):  # OpenAI: the call and its result in one
        return _hosted(block, kind.removesuffix("_call"))
    if kind in MEDIA or kind in ("image_url", "input_image", "output_audio"):
        return [_file(block)]
    return [{"part_kind": "custom:langchain", "block": block}]


def _thoughts(block: Fields) -> list[Fields]:
    """Each text of a summary is its own thought; the signature or encrypted content goes with the first."""
    extras = block["extras"] if isinstance(block.get("extras"), dict) else {}
    summary = [entry.get("text", "") for entry in _objects(block.get("summary"))]
    texts = summary or [text for key in ("thinking", "reasoning") if isinstance(text := block.get(key), str)] or [""]
    kept = (block.get(key, extras.get(key)) for key in ("signature", "encrypted_content"))
    signature = next((value for value in kept if isinstance(value, str)), None)
    told: Fields = {"as": block["type"], "group": len(texts) if summary else None}
    parts: list[Fields] = [{"part_kind": "thinking", "content": text} for text in texts]
    if signature is not None:
        parts[0]["signature"] = signature
        told["sealed"] = "encrypted_content" if "encrypted_content" in {*block, *extras} else "signature"
    if isinstance(block.get("id"), str):
        parts[0]["thinking_id"] = block["id"]
    parts[0][META] = {key: value for key, value in told.items() if value is not None}
    return parts if any(texts) or signature is not None else []


def _server_args(block: Fields) -> Any:
    given = block.get("input", block.get("args"))
    text = block.get("partial_json")
    if not given and isinstance(text, str):
        return arguments(text)
    return arguments(given) if isinstance(given, str) else given or {}


def _hosted(block: Fields, name: str) -> list[Fields]:
    if name == "web_search":
        args: Any = block.get("action") or {}
    elif name == "code_interpreter":
        args = {"code": block.get("code")}
    else:
        left_out = ("id", "type", "index", "status", "results", "outputs", "output", "error")
        args = {key: value for key, value in block.items() if key not in left_out and value is not None}
        args = _server_args({"input": args["arguments"]}) if "arguments" in args else args
    held = {
        key: block[key] for key in ("status", "results", "outputs", "output", "error") if block.get(key) is not None
    }
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": block.get("id"), "content": held}
    return [_builtin_call(block, name, args), {**answer, META: {"as": block["type"]}}]


def _builtin_call(block: Fields, name: str, args: Any) -> Fields:
    call = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": block.get("id"), "args": args}
    return {**call, META: {"as": block["type"]}}


def _builtin_return(block: Fields) -> Fields:
    call_id = block.get("tool_use_id", block.get("tool_call_id"))
    content = block.get("content", block.get("output"))
    kind = str(block["type"])
    name = "" if kind == "server_tool_result" else kind.removesuffix("_tool_result")
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": call_id, "content": content}
    return {**answer, META: {"as": kind}}


def _file(block: Fields) -> Fields:
    """A file that the model made, by value or by address."""
    kind = str(block.get("type", "file"))
    source = block.get("source") if isinstance(block.get("source"), dict) else {}
    held = {**block, **(source if isinstance(source, dict) else {})}
    media_type = next((held[key] for key in ("mime_type", "media_type", "mimeType") if held.get(key)), None)
    media_type = str(media_type or MEDIA.get(kind.partition("_")[0], MEDIA["file"]))
    data = held.get("base64", held.get("data"))
    address = held.get("url", held.get("image_url"))
    address = address.get("url") if isinstance(address, dict) else address
    if isinstance(data, str):
        return {"part_kind": "file", "content": {"kind": "binary", "data": data, "media_type": media_type}}
    if isinstance(address, str):
        content = {"kind": url_kind(media_type), "url": address, "content_type": media_type, "media_type": media_type}
        return {"part_kind": "file", "content": content}
    return {"part_kind": "custom:langchain", "block": block}


def content(value: Any) -> Any:
    """What a user says: one text as it is, else a list of texts and files."""
    if isinstance(value, str):
        return value
    pieces = [_piece(block) for block in value] if isinstance(value, list) else []
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces


def _piece(block: Any) -> Any:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return {"kind": "custom:langchain", "block": block}
    if block.get("type") in ("text", "input_text") and isinstance(block.get("text"), str):
        return block["text"]
    held = _file(block)
    return held["content"] if held["part_kind"] == "file" else {"kind": "custom:langchain", "block": block}


def _objects(values: Any) -> list[Fields]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
