"""The items in runs of OpenAI's Agents SDK: those of the Responses API, made by the model, by tools, or by the SDK.

What a model says is read as `openai_responses.items` reads it. `*_output` items, the results of tools, become
tool-returns. All others are `custom:TYPE` system messages.
"""

from typing import Any, Final

from pipeline.dialects.openai_responses import request
from pipeline.dialects.openai_responses.items import OWN_TOOLS, READERS, parts_of
from topics.json_text import Fields, objects, present

OUTPUT_ITEMS: Final = frozenset({"tool_call_output_item", "handoff_output_item"})
NAMED: Final = frozenset({"function_call", "custom_tool_call", "mcp_call"})
SEARCH: Final = "tool_search_output"
NAMES: Final = {
    "computer_call_output": "computer",
    "local_shell_call_output": "local_shell",
    "shell_call_output": "shell",
    "apply_patch_call_output": "apply_patch",
    SEARCH: "tool_search",
}


def parts(item: Fields) -> list[Fields]:
    """Return the parts of a whole item; none if it is not part of a response. Raises TypeError for a malformed call."""
    kind = _kind(item)
    if is_beside(item):
        return []
    if kind in NAMED and not isinstance(item.get("name"), str):
        raise TypeError("a call has a name")
    if kind.endswith("_call") and not isinstance(item.get("call_id") or item.get("id"), str):
        raise TypeError("a call has an id")
    return read(item)


def read(item: Fields) -> list[Fields]:
    """Return the parts of an item, which may lack anything; none if it is not part of a response."""
    return [] if is_beside(item) else parts_of(item)


def is_beside(item: Fields) -> bool:
    """Return True if the item is kept as a system message. A search for tools is a call if the client makes it."""
    kind = _kind(item)
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    return kind not in READERS and kind not in OWN_TOOLS


def _kind(item: Fields) -> str:
    return str(item.get("type") or "message")


def sources(item: Fields) -> list[tuple[str, Fields]]:
    """Return citations of a message as (event type, data) of system messages."""
    sources: list[tuple[str, Fields]] = []
    for piece in objects(item.get("content")) if _kind(item) == "message" else ():
        for note in objects(piece.get("annotations")):
            if isinstance(note.get("url"), str):
                sources.append(("source.url", _note_with_id(note["url"], note, url=note["url"])))
            elif isinstance(note.get("file_id"), str):
                sources.append(("source.document", _note_with_id(note["file_id"], note, filename=note.get("filename"))))
    return sources


def _note_with_id(identity: str, note: Fields, **more: Any) -> Fields:
    return present({"source_id": identity, **more, "title": note.get("title")})


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
    (fields,) = request.parts({**item, "call_id": call_id + ""})
    return {**fields, "tool_name": NAMES.get(item["type"], "")}
