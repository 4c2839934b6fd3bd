"""Output items of the Responses API -> ThreadProtocol parts.

    message                           text for each of its contents; a refusal is a text with `meta:refusal`
    reasoning                         thinking: its summaries, or its contents where there are none
    function_call, custom_tool_call   tool-call
    computer_call, shell_call, …      tool-call `computer`, `shell`, …: tools that the client runs
    web_search_call, mcp_call, …      builtin-tool-call and builtin-tool-return: tools that the server runs
    image_generation_call             the same, and a file

All others are `custom:TYPE` system messages. What ThreadProtocol has no field for is kept in `meta:openai` of the part,
under OpenAI's names. Ids that an adapter made up (FAKE_ID) are left out. `*_output` items, the results of
tools, become tool-returns.
"""

from collections.abc import Callable
from typing import Any, Final

from pipeline.dialects.openai_responses.keys import FAKE_ID
from pipeline.dialects.wire_values import identifier_of_base64, text_or_empty
from pipeline.turns.arguments import arguments
from topics.json_text import Fields, object_of, objects, present

META: Final = "meta:openai"
REFUSAL: Final = "meta:refusal"
# Type of an item -> name of the server's tool, and the fields that are its arguments; None: it has an `action`.
HOSTED: Final[dict[str, tuple[str, tuple[str, ...] | None]]] = {
    "web_search_call": ("web_search", None),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id")),
    "image_generation_call": ("image_generation", ()),
}
OUTPUT_ITEMS: Final = frozenset({"tool_call_output_item", "handoff_output_item"})
SEARCH: Final = "tool_search_output"
NAMES: Final = {
    "computer_call_output": "computer",
    "local_shell_call_output": "local_shell",
    "shell_call_output": "shell",
    "apply_patch_call_output": "apply_patch",
    SEARCH: "tool_search",
}


def parts(item: Fields) -> list[Fields]:
    """Return the parts of a whole item; none if it is not part of a response."""
    make = MAKERS.get(item["type"])
    return make(item) if make is not None else []


def is_beside(item: Fields) -> bool:
    """Return True if the item is kept as a system message. A search for tools is a call if the client makes it."""
    return item["type"] not in MAKERS or (item["type"] == "tool_search_call" and item.get("execution") != "client")


def sources(item: Fields) -> list[tuple[str, Fields]]:
    """Return citations of a message as (event type, data) of system messages."""
    sources: list[tuple[str, Fields]] = []
    for piece in objects(item.get("content")) if item["type"] == "message" else ():
        for note in objects(piece.get("annotations")):
            if isinstance(note.get("url"), str):
                sources.append(("source.url", _note_with_id(note["url"], note, url=note["url"])))
            elif isinstance(note.get("file_id"), str):
                sources.append(("source.document", _note_with_id(note["file_id"], note, filename=note.get("filename"))))
    return sources


def with_rest(fields: Fields, source: Fields, *used: str) -> Fields:
    """Return the fields, and the other fields of the source under META."""
    rest = {key: value for key, value in source.items() if key not in used and value is not None and value != []}
    if rest.get("id") == FAKE_ID:
        del rest["id"]
    return {**fields, META: rest} if rest else fields


def _note_with_id(identity: str, note: Fields, **more: Any) -> Fields:
    return present({"source_id": identity, **more, "title": note.get("title")})


def _message(item: Fields) -> list[Fields]:
    content = item.get("content")
    pieces = [{"type": "output_text", "text": content}] if isinstance(content, str) else objects(content)
    rest = {key: value for key, value in item.items() if key not in ("content", "role", "type")}
    return [_content(piece, rest) for piece in pieces]


def _content(piece: Fields, rest: Fields) -> Fields:
    if isinstance(piece.get("text"), str):
        return with_rest({"part_kind": "text", "content": piece["text"]}, {**piece, **rest}, "text", "type")
    if isinstance(piece.get("refusal"), str):
        fields = {"part_kind": "text", "content": piece["refusal"], REFUSAL: True}
        return with_rest(fields, {**piece, **rest}, "refusal", "type")
    return {"part_kind": "custom:openai", "content": piece}


def _reasoning(item: Fields) -> list[Fields]:
    summary, raw = (
        [text for piece in objects(item.get(key)) if (text := text_or_empty(piece.get("text")))]
        for key in ("summary", "content")
    )
    parts: list[Fields] = [{"part_kind": "thinking", "content": text} for text in summary or raw or [""]]
    signature, identity = item.get("encrypted_content"), item.get("id")
    if isinstance(signature, str) and signature:
        parts[0]["signature"] = signature
    if isinstance(identity, str) and identity not in ("", FAKE_ID):
        for fields in parts:
            fields["thinking_id"] = identity
    rest = {"raw_content": raw} if summary and raw else {}
    used = ("id", "type", "summary", "content", "encrypted_content")
    parts[0] = with_rest(parts[0], {**item, **rest}, *used)
    return parts


def _function_call(item: Fields) -> list[Fields]:
    return [_call(item, item["name"] + "", arguments((item.get("arguments") or "") + ""), "name", "arguments")]


def _client_call(name: str, key: str) -> Callable[[Fields], list[Fields]]:
    return lambda item: [_call(item, name, _object(item.get(key)), key)]


def _computer_call(item: Fields) -> list[Fields]:
    keys = ("action", "actions", "pending_safety_checks")
    return [_call(item, "computer", {key: item[key] for key in keys if item.get(key)}, *keys)]


def _shell_call(item: Fields) -> list[Fields]:
    """Return a shell's call: the client's, unless its environment is the server's."""
    environment = item.get("environment")
    is_servers = isinstance(environment, dict) and environment.get("type") != "local"
    kind = "builtin-tool-call" if is_servers else "tool-call"
    return [_call(item, "shell", _object(item.get("action")), "action", kind=kind)]


def _tool_search(item: Fields) -> list[Fields]:
    if item.get("execution") != "client":
        return []
    return [_call(item, "tool_search", _object(item.get("arguments")), "arguments")]


def _call(item: Fields, name: str, args: Any, *used: str, kind: str = "tool-call") -> Fields:
    call_id = item.get("call_id") or item.get("id")
    if not isinstance(call_id, str):
        raise TypeError("a call has an id")
    fields = {"part_kind": kind, "tool_name": name, "tool_call_id": call_id, "args": args}
    return with_rest(fields, item, "call_id", "type", *used)


def _hosted(item: Fields) -> list[Fields]:
    name, keys = HOSTED[item["type"]]
    args = {key: item[key] for key in keys or () if item.get(key) is not None}
    args, used = (_object(item.get("action")), ("action",)) if keys is None else (args, keys)
    call_id = item["id"] + ""
    fields = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": call_id, "args": args}
    apart = {*used, "id", "type", "status", "result"}
    result = {key: value for key, value in item.items() if key not in apart and value is not None}
    parts = [fields, _return(name, call_id, result, item)]
    image = item.get("result")
    if isinstance(image, str) and image:
        parts.append(_file(image, item.get("output_format")))
    return parts


def _mcp_call(item: Fields) -> list[Fields]:
    name, call_id = item["name"] + "", item["id"] + ""
    args = arguments((item.get("arguments") or "") + "")
    fields = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": call_id, "args": args}
    call = with_rest(fields, item, "id", "type", "name", "arguments", "output", "error", "status")
    error = item.get("error")
    answer = _return(name, call_id, item.get("output") if error is None else error, item)
    return [call, answer if error is None else {**answer, "status": "error"}]


def _return(name: str, call_id: str, content: Any, item: Fields) -> Fields:
    status = "error" if item.get("status") == "failed" else "success"
    identity = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": call_id}
    return {**identity, "status": status, "content": content}


def _file(data: str, form: Any) -> Fields:
    media_type = f"image/{form}" if isinstance(form, str) and form else "image/png"
    binary = {"kind": "binary", "data": data, "media_type": media_type, "identifier": identifier_of_base64(data)}
    return {"part_kind": "file", "content": binary}


def _object(value: Any) -> Fields:
    if isinstance(value, str):
        return arguments(value)
    return object_of(value)


def is_output(item: Fields, raw: Fields) -> bool:
    """Return True if a run item answers a call: `raw` is its raw item."""
    if raw["type"] == SEARCH:  # the server's search is not a call either
        return raw.get("execution") == "client"
    return item.get("type") in OUTPUT_ITEMS or raw["type"] in NAMES


def answer_of(item: Fields, raw: Fields) -> Fields:
    """Return a run item as tool-return, with the model's view (`output`), not the tool's value."""
    fields = tool_return(raw)
    name = item.get("tool_name")
    return {**fields, "tool_name": name} if isinstance(name, str) and not fields["tool_name"] else fields


def tool_return(item: Fields) -> Fields:
    """Return an output item as tool-return. Raises KeyError or TypeError without a call's id."""
    call_id: Any = item.get("call_id") or item["id"]
    fields: Fields = {
        "part_kind": "tool-return",
        "tool_name": NAMES.get(item["type"], ""),
        "tool_call_id": call_id + "",
        "status": "error" if item.get("status") == "failed" else "success",
        "content": item.get("tools") if item["type"] == SEARCH else item.get("output"),
    }
    returned = with_rest(fields, item, "call_id", "output", "status")
    if returned.get(META) == {"type": "function_call_output"}:
        del returned[META]
    return returned


MAKERS: Final[dict[str, Callable[[Fields], list[Fields]]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": lambda item: [_call(item, item["name"] + "", {"input": item.get("input")}, "name", "input")],
    "local_shell_call": _client_call("local_shell", "action"),
    "apply_patch_call": _client_call("apply_patch", "operation"),
    "computer_call": _computer_call,
    "shell_call": _shell_call,
    "shell_call_output": lambda item: [_return("shell", item["call_id"] + "", item.get("output"), item)],
    **dict.fromkeys(HOSTED, _hosted),
    "mcp_call": _mcp_call,
    "tool_search_call": _tool_search,
}
