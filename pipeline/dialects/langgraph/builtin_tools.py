"""Conversion of blocks of tools that the provider runs itself to calls and returns.

Source: langchain-core (messages/block_translators), LangChain.js (messages/block_translators).
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.turns.arguments import arguments
from topics.json_text import Fields

META: Final = "meta:langchain"
CALLS: Final = frozenset({"server_tool_use", "server_tool_call", "mcp_tool_use"})
RESULTS: Final = frozenset({"server_tool_result", "server_tool_call_result"})
ANSWERED: Final = ("status", "results", "outputs", "output", "error")
NOT_ARGUMENTS: Final = frozenset({"id", "type", "index", *ANSWERED})
SUCCESS: Final = (None, 1, "OUTCOME_OK")  # of Google's code execution; None in old messages


def builtin_tool(block: Fields, kind: str) -> list[Fields] | None:
    """Return the parts of such a block; None if it is another. A block of OpenAI is a call with its return."""
    if kind in CALLS:
        return [_call(block, str(block.get("name", "")), _args(block))]
    if kind in RESULTS or kind.endswith("_tool_result"):
        return [_return(block, kind)]
    if kind in ("executable_code", "executableCode"):
        return [_call(block, "code_execution", _code(block, kind))]
    if kind in ("code_execution_result", "codeExecutionResult"):
        return [_code_result(block, kind)]
    return _hosted(block, kind.removesuffix("_call")) if kind.endswith("_call") else None


def _args(block: Fields) -> Any:
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
    elif "arguments" in block:
        args = _args({"input": block["arguments"]})
    else:
        args = {key: value for key, value in block.items() if key not in NOT_ARGUMENTS and value is not None}
    held = {key: block[key] for key in ANSWERED if block.get(key) is not None}
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": block.get("id"), "content": held}
    return [_call(block, name, args), {**answer, META: {"as": block["type"]}}]


def _call(block: Fields, name: str, args: Any) -> Fields:
    call = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": block.get("id"), "args": args}
    return {**call, META: {"as": block["type"]}}


def _return(block: Fields, kind: str) -> Fields:
    call_id = next((block[key] for key in ("tool_use_id", "tool_call_id", "toolCallId") if key in block), None)
    name = "" if kind in RESULTS else kind.removesuffix("_tool_result")
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": call_id}
    return {**answer, "content": block.get("content", block.get("output")), META: {"as": kind}}


def _code(block: Fields, kind: str) -> Fields:
    """Return the code that Google ran; LangChain.js writes it as an object."""
    held = block.get(kind)
    held = held if isinstance(held, dict) else {"code": held, "language": block.get("language")}
    return {key: held[key] for key in ("language", "code") if held.get(key) is not None}


def _code_result(block: Fields, kind: str) -> Fields:
    held = block.get(kind)
    held = held if isinstance(held, dict) else {"output": held, "outcome": block.get("outcome")}
    content = {key: held[key] for key in ("outcome", "output") if held.get(key) is not None}
    answer: Fields = {"part_kind": "builtin-tool-return", "tool_name": "code_execution", "content": content}
    status = "success" if held.get("outcome") in SUCCESS else "error"
    return {**answer, "tool_call_id": block.get("tool_call_id"), "status": status, META: {"as": kind}}


def with_ids(parts: list[Fields]) -> list[Fields]:
    """Return the parts with an id for each call and return that lacks one: Google's are paired by their order."""
    newest = ""
    for index, part in enumerate(parts):
        if part["part_kind"] == "builtin-tool-call":
            newest = part["tool_call_id"] = part["tool_call_id"] or f"builtin:{index}"
        elif part["part_kind"] == "builtin-tool-return":
            part["tool_call_id"] = part["tool_call_id"] or newest or f"builtin:{index}"
    return parts
