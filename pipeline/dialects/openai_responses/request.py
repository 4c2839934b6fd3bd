"""The new items in the bodies of Responses requests; and these items, as in histories.

`input` is a text, or a list of items: messages (role user, assistant, system, developer), items of earlier output, and
outputs of tools.
"""

from typing import Any, Final

from pipeline.dialects.model_calls import RequestReader
from pipeline.dialects.openai_chat.request import content_at, prompt
from pipeline.dialects.openai_responses.keys import note
from topics.json_text import Fields, object_of, objects

OWN: Final = frozenset(
    {"reasoning", "program", "program_output", "compaction", "mcp_list_tools", "mcp_approval_request", "item_reference"}
)


def items(body: Any) -> list[Fields]:
    """Return the input of a body."""
    listed = object_of(body).get("input")
    if isinstance(listed, str):
        return [{"role": "user", "content": listed}]
    return objects(listed)


def is_own(item: Fields) -> bool:
    """Return True if the item is from the model, or from the server's tools."""
    kind = str(item.get("type") or "message")
    if kind == "tool_search_output":
        return item.get("execution") == "server"
    return item.get("role") == "assistant" or kind in OWN or kind.endswith("_call")


def parts(item: Fields) -> list[Fields]:
    """Return the parts of a user's or a tool's item."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return [user_prompt(item)] if item.get("role") == "user" else []
    if kind.endswith("_output") and isinstance(item.get("call_id"), str):
        status = "error" if item.get("status") == "failed" else "success"
        content = item.get("tools") if kind == "tool_search_output" else item.get("output")
        part: Fields = {
            "part_kind": "tool-return",
            "tool_call_id": item["call_id"],
            "status": status,
            "content": content,
        }
        note(part, {"type": kind if kind != "function_call_output" else None})
        return [part]
    return [{"part_kind": f"custom:{kind}", "block": item}]


def names(item: Fields) -> dict[str, str]:
    """Return the call in an item: id -> name."""
    call_id = item.get("call_id")
    return {call_id: str(item.get("name") or item.get("type"))} if isinstance(call_id, str) else {}


def continues(body: Any) -> str | None:
    """Return the response, or the conversation, that the server continues."""
    if not isinstance(body, dict):
        return None
    previous = body.get("previous_response_id") or body.get("conversation")
    previous = previous.get("id") if isinstance(previous, dict) else previous
    return previous if isinstance(previous, str) else None


def user_prompt(item: Fields) -> Fields:
    """Return a user's message as user-prompt."""
    content, blocks = prompt(item.get("content"), _content_item)
    part: Fields = {"part_kind": "user-prompt", "content": content}
    note(part, {"blocks": blocks})
    return part


def _content_item(block: Fields) -> Any:
    match block:
        case {"type": "input_text" | "text", "text": str(text)}:
            return text
        case {"type": "input_image", "image_url": str(url)}:
            return content_at(url, "image/*")
        case {"type": "input_file", "file_data": str(url)}:
            return content_at(url, "application/octet-stream")
    return {"kind": "custom:openai_responses", "block": block}


READER: Final = RequestReader(items, is_own, parts, names, continues)
