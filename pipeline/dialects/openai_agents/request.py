"""The user's input that starts a run, from its arguments (`run.request`).

They are {"input": text | input items}. Items after the last one of a model are new: the user's messages, and outputs of
tools.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_agents.outputs import tool_return
from pipeline.turns.lineage import History
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields

OF_MODEL: Final = frozenset({"reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request"})


def add_asked(builder: Builder) -> None:
    """Add the user turn, and outputs with which the run starts; a body of another shape has none."""
    body = builder.context.request
    asked = body.get("input") if isinstance(body, dict) else body
    if isinstance(asked, str):
        builder.user_turn([{"part_kind": "user-prompt", "content": asked}])
    elif isinstance(asked, list):
        new = _new([item for item in asked if isinstance(item, dict)])
        prompts = [user_prompt(item["content"]) for item in new if item.get("role") == "user"]
        returns = [tool_return(item) for item in new if str(item.get("type")).endswith("call_output")]
        if prompts:
            builder.user_turn(prompts)
        if returns:
            answered = [Part(fields, done=True) for fields in returns]
            builder.messages.append(Message("request", builder.at, answered, closed=True))


def user_prompt(content: Any) -> Fields:
    """Return a user message's content as user-prompt: one text as it is, else a list of texts and files."""
    pieces = content if isinstance(content, list) else [content]
    converted = [_content_item(piece) for piece in pieces]
    plain = len(converted) == 1 and isinstance(converted[0], str)
    return {"part_kind": "user-prompt", "content": converted[0] if plain else converted}


def _new(items: list[Fields]) -> list[Fields]:
    last = max((n for n, item in enumerate(items) if _is_of_model(item)), default=-1)
    return items[last + 1 :]


def _is_of_model(item: Fields) -> bool:
    kind = item.get("type")
    return item.get("role") == "assistant" or kind in OF_MODEL or (isinstance(kind, str) and kind.endswith("_call"))


def _content_item(piece: Any) -> Any:
    match piece:
        case {"type": "input_text" | "text" | "output_text", "text": str(text)}:
            return text
        case {"image_url": str(url)} | {"file_url": str(url)} if not url.startswith("data:"):
            media_type = "image/*" if "image_url" in piece else "application/octet-stream"
            return {"kind": url_kind(media_type), "url": url, "media_type": media_type}
        case {"image_url": str(url)} | {"file_data": str(url)} if url.startswith("data:"):
            head, _, data = url.partition(",")
            media_type = head.removeprefix("data:").removesuffix(";base64")
            return {"kind": "binary", "data": data, "media_type": media_type or "application/octet-stream"}
        case str():
            return piece
    return {"kind": "custom:openai", "block": piece}


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    asked = body.get("input") if isinstance(body, dict) else body
    return History(asked if isinstance(asked, list) else [{"role": "user", "content": asked}])
