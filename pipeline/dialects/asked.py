"""The system messages and tool definitions of a stored request, in the form of Chat Completions.

A body is that of any provider's request without its messages, as `pipeline.turns.requests` stores it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.exports import tool_name
from topics.json_text import Fields

SYSTEM: Final = ("system", "instructions", "systemInstruction")
SCHEMAS: Final = ("parameters", "input_schema", "parametersJsonSchema")


def system_prompts(body: Fields) -> list[str]:
    """Return the texts of the system prompt; the blocks of each message are joined."""
    messages = body.get("messages")
    leading = (
        [message.get("content") for message in messages if isinstance(message, dict)]
        if isinstance(messages, list)
        else []
    )
    places = [*leading, *(holder.get(name) for holder in _places(body) for name in SYSTEM)]
    return [text for prompt in places if (text := _text_of(prompt))]


def tools_of(body: Fields) -> list[Fields]:
    """Return the tools that have a schema or a description; a provider's built-in tools have neither."""
    listed = [holder.get(name) for holder in _places(body) for name in ("tools", "functions")]
    return [_tool(tool) for some in listed if isinstance(some, list) for given in some for tool in _defined(given)]


def _places(body: Fields) -> list[Fields]:
    inner = body.get("request")  # Code Assist wraps the body
    return [body, inner] if isinstance(inner, dict) else [body]


def _text_of(value: Any) -> str:
    """Return the text of a string, of an object with `text` or `parts`, or of a list of those."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text_of(value.get("text") or value.get("parts"))
    return "\n\n".join(filter(None, map(_text_of, value))) if isinstance(value, list) else ""


def _defined(given: Any) -> Iterator[Fields]:
    """Yield the functions that an entry of `tools` defines: itself, the one that it wraps, or Gemini's list of them."""
    if not isinstance(given, dict):
        return
    declared = given.get("functionDeclarations", given.get("function", given))
    for tool in declared if isinstance(declared, list) else [declared]:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and (_schema(tool) or "description" in tool):
            yield tool


def _tool(tool: Fields) -> Fields:
    function: Fields = {"name": tool_name(tool["name"])}
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    function["parameters"] = _schema(tool) or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _schema(tool: Fields) -> Fields | None:
    return next((tool[name] for name in SCHEMAS if isinstance(tool.get(name), dict)), None)
