"""Conversion of content blocks of Anthropic's Messages API, as in the Agent SDK, to parts of a response.

They differ from those of the wire `anthropic`: a line contains whole blocks, and a malformed block is refused. Prompts
are those of that wire.
"""

from typing import Any, Final

from pipeline.dialects.anthropic.keys import META
from pipeline.dialects.anthropic.message import CALLS, REDACTED
from pipeline.dialects.anthropic.request import parts
from pipeline.turns.arguments import arguments
from topics.json_text import Fields, object_of

PROVIDER: Final = "anthropic"
RESULTS: Final = frozenset({"advisor_tool_result"})  # of server tools; the Agent SDK knows no others


def part_of(block: Any) -> Fields:
    """Return a whole block as a part; blocks of unknown types are kept.

    Raises KeyError or TypeError if it is malformed.
    """
    kind = block["type"] + ""
    if kind == "text":
        return _noted({"part_kind": "text", "content": block["text"] + ""}, block, "type", "text")
    if kind == "thinking":
        thought = {"part_kind": "thinking", "content": block["thinking"] + "", "provider_name": PROVIDER}
        if isinstance(block.get("signature"), str) and block["signature"]:
            thought["signature"] = block["signature"]
        return _noted(thought, block, "type", "thinking", "signature")
    if kind == REDACTED:
        signature = block["data"] + ""
        return {
            "part_kind": "thinking",
            "content": "",
            "provider_name": PROVIDER,
            "signature": signature,
            "thinking_id": REDACTED,
            META: {"type": kind},
        }
    if kind in CALLS:
        call = {"part_kind": CALLS[kind], "tool_name": block["name"] + "", "tool_call_id": block["id"] + ""}
        return _noted({**call, "args": _input(block.get("input"))}, block, "type", "name", "id", "input", kept=kind)
    if kind in RESULTS:
        result = {
            "part_kind": "builtin-tool-return",
            "tool_name": "",
            "tool_call_id": block["tool_use_id"] + "",
            "status": "error" if _failed(block) else "success",
            "content": block.get("content"),
        }
        return _noted(result, block, "type", "tool_use_id", "content", kept=kind)
    return {"part_kind": f"custom:{kind}", "block": block}


def begun(block: Any) -> Fields:
    """Return the part of a block that has just begun: a call without its arguments."""
    part = part_of({"text": "", "thinking": "", "data": "", **block})
    return {**part, "args": None} if "args" in part else part


def delta_text(delta: Any) -> str:
    """Return the text that a delta adds to its block, or to its arguments; empty if it adds something else."""
    match delta:
        case {"type": "text_delta", "text": str(text)} | {"type": "thinking_delta", "thinking": str(text)}:
            return text
        case {"type": "input_json_delta", "partial_json": str(text)}:
            return text
    return ""


def _input(value: Any) -> Fields:
    if value is None:
        return {}
    return value if isinstance(value, dict) else arguments(value if isinstance(value, str) else str(value))


def _failed(block: Fields) -> bool:
    kind = object_of(block.get("content")).get("type")
    return block.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))


def _noted(part: Fields, block: Fields, *known: str, kept: str | None = None) -> Fields:
    """Return the part with the block's other fields; `kept`: the block's type, if the part does not have it."""
    rest = {key: value for key, value in block.items() if key not in known and value not in (None, [])}
    if kept not in (None, "tool_use"):
        rest["type"] = kept
    return {**part, META: rest} if rest else part


def prompts(content: Any) -> list[Fields]:
    """Return the user's prompts in a text, or in content blocks."""
    return parts({"role": "user", "content": content})


def prompts_of_request(request: Any) -> list[Fields]:
    """Return the prompt in the body with which a run was started.

    The body is a text, a user line, a message, or options with a prompt.
    """
    match request:
        case str(text) | {"prompt": str(text)}:
            return prompts(text)
        case {"message": {"content": content}} | {"role": "user", "content": content}:
            return [part for part in prompts(content) if part["part_kind"] != "tool-return"]
    return []
