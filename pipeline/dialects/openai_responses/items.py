"""Conversion of whole items of a response's output to parts."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pipeline.dialects.openai_responses.keys import FAKE_ID, REFUSAL, note
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.arguments import arguments
from topics.json_text import Fields, filled, object_of, objects

Parts = Iterator[Fields]
HIDDEN: Final = frozenset({"id", "status", "arguments", "input", "name", "call_id"})  # of calls: in the part
OF_MESSAGE: Final = frozenset(
    {"id", "type", "role", "status", "content", "phase", "text", "refusal", "annotations", "logprobs"}
)
OF_REASONING: Final = frozenset({"id", "type", "status", "summary", "content", "encrypted_content"})
OWN_TOOLS: Final = {  # the server's tools: the name of their calls, and the item's fields that are the arguments
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id")),
    "image_generation_call": ("image_generation", ()),
    "mcp_call": ("", ()),
}


def parts_of(item: Fields) -> list[Fields]:
    """Return an item's parts; an unknown item is kept as custom:TYPE."""
    kind = str(item.get("type") or "message")
    if kind in OWN_TOOLS:
        return list(_own_tool(item, kind))
    read = READERS.get(kind)
    return [_custom(item, kind)] if read is None else list(read(item))


def _message(item: Fields) -> Parts:
    content = item.get("content")
    for piece in [{"type": "output_text", "text": content}] if isinstance(content, str) else objects(content):
        if isinstance(piece.get("refusal"), str):
            refused: Fields = {"part_kind": "text", "content": piece["refusal"], REFUSAL: True}
            note(refused, {"fields": _unknown(item, OF_MESSAGE)})
            yield refused
        elif isinstance(piece.get("text"), str):
            part: Fields = {"part_kind": "text", "content": piece["text"]}
            note(part, {"annotations": piece.get("annotations") or None, "phase": item.get("phase")})
            note(part, {"logprobs": piece.get("logprobs") or None})
            note(part, {"fields": _unknown({**item, **piece}, OF_MESSAGE)})
            yield part


def _reasoning(item: Fields) -> Parts:
    """Return a part for each summary, or, without any, for each text; encrypted content is the signature."""
    summaries = [text for piece in objects(item.get("summary")) if (text := text_or_empty(piece.get("text")))]
    raw = [text for piece in objects(item.get("content")) if (text := text_or_empty(piece.get("text")))]
    first = filled({"signature": text_or_empty(item.get("encrypted_content"))})
    if text_or_empty(item.get("id")) not in ("", FAKE_ID):
        first["thinking_id"] = item["id"]
    for number, text in enumerate(summaries or raw or ([""] if first.get("signature") else [])):
        part: Fields = {"part_kind": "thinking", "content": text, **(first if number == 0 else {})}
        if number == 0:
            note(part, {"item": True, "raw_content": raw if summaries and raw else None, "summarized": bool(summaries)})
            note(part, {"fields": _unknown(item, OF_REASONING)})
        yield part


def _unknown(item: Fields, known: frozenset[str]) -> Fields | None:
    return {key: value for key, value in item.items() if key not in known and value not in (None, [], {})} or None


def _call(
    name: Callable[[Fields], str], args: Callable[[Fields], Any], kind: str = "tool-call"
) -> Callable[[Fields], Parts]:
    def read(item: Fields) -> Parts:
        call_id = text_or_empty(item.get("call_id")) or text_or_empty(item.get("id"))
        part = {"part_kind": kind, "tool_name": name(item), "tool_call_id": call_id, "args": args(item)}
        note(part, {key: value for key, value in item.items() if key not in HIDDEN})
        note(part, {"status": item["status"]} if item.get("status") == "incomplete" else {})
        yield part

    return read


def _shell(item: Fields) -> Parts:
    """Return a shell of the application, or one in a container of the server."""
    environment = item.get("environment")
    local = environment is None or (isinstance(environment, dict) and environment.get("type") == "local")
    kind = "tool-call" if local else "builtin-tool-call"
    yield from _call(lambda item: "shell", lambda item: object_of(item.get("action")), kind)(item)


def _shell_output(item: Fields) -> Parts:
    part: Fields = {
        "part_kind": "builtin-tool-return",
        "tool_name": "shell",
        "tool_call_id": text_or_empty(item.get("call_id")),
    }
    part |= {"status": "success", "content": item.get("output")}
    note(part, {"type": "shell_call_output"})
    yield part


def _computer(item: Fields) -> Fields:
    keys = ("action", "actions", "pending_safety_checks")
    return {key: item[key] for key in keys if item.get(key) not in (None, [], {})}


def _tool_search(item: Fields) -> Parts:
    if item.get("execution") != "client":
        yield _custom(item, "tool_search_call")
        return
    yield from _call(lambda item: "tool_search", lambda item: _arguments(item.get("arguments")))(item)


def _own_tool(item: Fields, kind: str) -> Parts:
    """Return a tool that the server ran: its call, its result, and the picture that it made."""
    name, keys = OWN_TOOLS[kind]
    call: Fields = {"part_kind": "builtin-tool-call", "tool_name": name or text_or_empty(item.get("name"))}
    call["tool_call_id"] = text_or_empty(item.get("id"))
    if kind == "mcp_call":
        call["args"] = _arguments(item.get("arguments"))
    elif kind == "web_search_call":
        call["args"] = object_of(item.get("action"))
    else:
        call["args"] = {key: item[key] for key in keys if item.get(key) is not None}
    shown = {key: value for key, value in item.items() if not (kind == "image_generation_call" and key == "result")}
    note(call, {"item": shown})
    yield call
    failed = item.get("status") == "failed" or bool(item.get("error"))
    used = ("id", "type", "name", "arguments", *keys)
    content = {key: value for key, value in shown.items() if key not in used and value is not None}
    identity = {key: call[key] for key in ("tool_name", "tool_call_id")}
    status = "error" if failed else "success"
    yield {"part_kind": "builtin-tool-return", **identity, "status": status, "content": content}
    if kind == "image_generation_call" and text_or_empty(item.get("result")):
        media = f"image/{text_or_empty(item.get('output_format')) or 'png'}"
        yield {"part_kind": "file", "content": {"kind": "binary", "data": item["result"], "media_type": media}}


def _custom(item: Fields, kind: str) -> Fields:
    return {"part_kind": f"custom:{kind}", "block": item}


def _arguments(value: Any) -> Fields:
    return arguments(value) if isinstance(value, str) else object_of(value)


def _name_of(item: Fields) -> str:
    return text_or_empty(item.get("name"))


READERS: Final[dict[str, Callable[[Fields], Parts]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call(_name_of, lambda item: _arguments(item.get("arguments"))),
    "custom_tool_call": _call(_name_of, lambda item: {"input": text_or_empty(item.get("input"))}),
    "local_shell_call": _call(lambda item: "local_shell", lambda item: object_of(item.get("action"))),
    "apply_patch_call": _call(lambda item: "apply_patch", lambda item: object_of(item.get("operation"))),
    "computer_call": _call(lambda item: "computer", _computer),
    "shell_call": _shell,
    "shell_call_output": _shell_output,
    "tool_search_call": _tool_search,
}
