"""The body with which an Agents SDK endpoint was called: it has the user's turn, which the stream does not carry.

Beside `projectId`, `sessionId` and `toolChoice` it has the user's input: a text or a message under `message`, `input`
or `prompt`, or the conversation under `messages` or `input`. A message has `content` or `parts`: a text, or a list.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.turns.lineage import History
from topics.json_text import Fields

CLIENT_METADATA: Final = {"projectId": "app/project_id", "sessionId": "session_id", "toolChoice": "agent.tool_choice"}


def user_turn(builder: Builder) -> None:
    """Add the user's turn, if the request body has one."""
    body = builder.context.request if isinstance(builder.context.request, dict) else {}
    metadata = {name: body[key] for key, name in CLIENT_METADATA.items() if body.get(key) is not None}
    prompts = [prompt for message in _new_messages(body) if (prompt := user_prompt(_parts(message))) is not None]
    if prompts or metadata:
        builder.user_turn(prompts, client_metadata=metadata)


def _new_messages(body: Fields) -> list[Any]:
    """Return the user's messages after the assistant's last."""
    for key in ("message", "input", "prompt"):
        if isinstance(body.get(key), str | dict):
            return [body[key]]
    messages = body.get("messages", body.get("input"))
    new: list[Any] = []
    for message in messages if isinstance(messages, list) else []:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            new.append(message)
        elif role == "assistant":
            new.clear()
    return new


def _parts(message: str | Fields) -> list[Any]:
    """Return a message's content as the parts of a UI message."""
    content = message if isinstance(message, str) else message.get("content", message.get("parts", message.get("text")))
    pieces = content if isinstance(content, list) else [content]
    return [_as_text(piece) or piece for piece in pieces if piece]


def _as_text(piece: Any) -> Fields | None:
    text = piece.get("text") if isinstance(piece, dict) else piece
    return {"type": "text", "text": text} if isinstance(text, str) else None


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    if not isinstance(body, dict):
        return History()
    turn = next((body[key] for key in ("message", "input", "prompt") if isinstance(body.get(key), str | dict)), None)
    if turn is not None:
        return History([{"role": "user", **turn} if isinstance(turn, dict) else {"role": "user", "content": turn}])
    messages = body.get("messages", body.get("input"))
    return History(messages if isinstance(messages, list) else ())
