"""Results of tools: `*_output` items of the Responses API as tool-return parts."""

from __future__ import annotations

from typing import Any, Final

from pipeline.dialects.openai_agents.items import META, with_rest
from topics.json_text import Fields

OUTPUT_ITEMS: Final = frozenset({"tool_call_output_item", "handoff_output_item"})
SEARCH: Final = "tool_search_output"
NAMES: Final = {
    "computer_call_output": "computer",
    "local_shell_call_output": "local_shell",
    "shell_call_output": "shell",
    "apply_patch_call_output": "apply_patch",
    SEARCH: "tool_search",
}


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
