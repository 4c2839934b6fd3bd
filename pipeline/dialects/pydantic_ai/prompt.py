"""The user's prompt in the body with which a server of Pydantic AI was called (`run.request`).

An event handler's stream and the UI adapters' runs do not contain the prompt that started them; the publisher may send
it. Known bodies: the arguments of `Agent.run` ({"user_prompt", "message_history"}), ModelMessages, and the chat
messages of `useChat` ({"messages": [{"role", "parts"}]}).
"""

from __future__ import annotations

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.dialects.pydantic_ai.messages import part
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.turns.lineage import History
from topics.json_text import Fields


def add_prompt(builder: Builder) -> None:
    """Add the user turn from the request body if the stream had none. A body of another shape is ignored."""
    if builder.user_turns or builder.context.request is None:
        return
    try:
        parts = prompt_parts(builder.context.request)
    except (AttributeError, KeyError, TypeError):
        return
    if parts:
        builder.user_turn(parts)


def prompt_parts(body: Any) -> list[Fields]:
    """Return the parts of a body's user turn. Raises AttributeError, KeyError or TypeError for another shape."""
    if isinstance(body, str):
        return [{"part_kind": "user-prompt", "content": body}]
    if isinstance(body, list):
        return _last_words(body)
    prompt = body.get("user_prompt", body.get("prompt"))
    if isinstance(prompt, str | list):
        return [part({"part_kind": "user-prompt", "content": prompt})]
    messages = body.get("messages", body.get("message_history"))
    return _last_words(messages) if isinstance(messages, list) else []


def _last_words(messages: list[Fields]) -> list[Fields]:
    """Return the prompts of the last message; empty if that is the agent's, which the run continues."""
    last = messages[-1] if messages else {}
    if last.get("kind") == "request":
        return [part(raw) for raw in last["parts"] if raw["part_kind"] == "user-prompt"]
    if last.get("role") != "user":
        return []
    parts = last["parts"] if isinstance(last.get("parts"), list) else [{"type": "text", "text": last["content"]}]
    prompt = user_prompt(parts)
    return [] if prompt is None else [prompt]


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    if not isinstance(body, dict):
        return History([_message(raw) for raw in body] if isinstance(body, list) else ())
    raws = body.get("messages", body.get("message_history"))
    messages = [_message(raw) for raw in raws] if isinstance(raws, list) else []
    prompt = body.get("user_prompt", body.get("prompt"))
    if isinstance(prompt, str | list):
        messages.append({"role": "user", "content": prompt})
    return History(messages)


def _message(raw: Any) -> Any:
    """Return a ModelMessage in the form of a chat message; any other as it is."""
    if not isinstance(raw, dict) or raw.get("kind") not in ("request", "response"):
        return raw
    parts = [part for part in raw["parts"] if isinstance(part, dict)] if isinstance(raw.get("parts"), list) else []
    if raw["kind"] == "response":
        texts = [{"text": part.get("content")} for part in parts if part.get("part_kind") == "text"]
        return {"role": "assistant", "content": texts}
    asked = [part.get("content") for part in parts if part.get("part_kind") == "user-prompt"]
    pieces = [piece for content in asked for piece in (content if isinstance(content, list) else [content])]
    return {"role": "user", "content": pieces} if asked else {"role": "tool"}
