"""OpenAI's Chat Completions, and its messages."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import ends, model_calls
from pipeline.dialects.model_calls import ERROR, REQUEST
from pipeline.dialects.openai_chat import request
from pipeline.dialects.openai_chat.thoughts import blocks_in, text_of
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import PROVIDER, Loss
from topics.json_text import list_of, object_of

OF_THOUGHT: Final = ("signature", "thinking_id", "provider_name", "provider_details")
OPENAI_CHAT: Final = (
    PROVIDER,
    Loss("the provider's own tools", "not there", drop.parts(lambda part: part["part_kind"].startswith("builtin-"))),
    Loss("signature, id and provider of a thought", "not there", drop.part_fields("thinking", *OF_THOUGHT)),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Some servers omit the type, and an error has none."""
    match event:
        case {"type": _} | {"event_type": _} | {"jsonrpc": _}:
            return False
        case {"choices": list()} | {"error": {"message": _}}:
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    pieces: list[Shown] = []
    for choice in _choices(event):
        match choice:
            case {"index": int(index)} if index != 0:
                continue
            case {"delta": dict(delta)} | {"message": dict(delta)}:
                pieces += _of_delta(delta)
    return pieces


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: a `finish_reason` ends a call, the next request begins another.

    An error is not an end.
    """
    match event:
        case {"object": "turnmill.request" | "turnmill.error"}:
            return None
        case {"error": failure} if failure:
            return None
    for choice in _choices(event):
        match choice:
            case {"index": int(index)} if index != 0:
                continue
            case {"finish_reason": str(reason)} if reason and ends.over_chat(reason) != "error":
                return "complete"
    return before


def _choices(event: Any) -> list[Any]:
    match event:
        case {"object": str(kind)} if kind in (REQUEST, ERROR):
            return []
        case {"choices": list(choices)}:
            return choices
    return []


def _of_delta(delta: dict[str, Any]) -> list[Shown]:
    thoughts = [delta.get("reasoning_content") or delta.get("reasoning")]
    audio, content = delta.get("audio"), delta.get("content")
    texts = [content, delta.get("refusal"), object_of(audio).get("transcript")]
    for piece in list_of(content):
        match piece:
            case {"type": "thinking", "thinking": list(items)}:
                thoughts += [item.get("text") for item in items if isinstance(item, dict)]
            case {"type": "thinking", "thinking": thought}:
                thoughts.append(thought)
            case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
                texts.append(text)
    details = delta.get("reasoning_details")
    for detail in details if isinstance(details, list) and not thoughts[0] else ():
        match detail:
            case {"text": thought} | {"summary": thought}:
                thoughts.append(thought)
    if not any(thoughts):
        thoughts += [text_of(piece) for _, _, piece in blocks_in(delta)]
    calls = delta.get("tool_calls")
    tools = [_tool(call) for call in calls] if isinstance(calls, list) else []
    return [*_shown("thinking", thoughts), *_shown("text", texts), *_shown("tool", tools)]


def _tool(call: Any) -> Any:
    match call:
        case {"function": {"name": name}} | {"custom": {"name": name}}:
            return name
    return None


def _shown(kind: Literal["text", "thinking", "tool"], texts: Sequence[Any]) -> list[Shown]:
    return [Shown(kind, text) for text in texts if isinstance(text, str) and text]


DIALECT: Final = dialect(__name__, OPENAI_CHAT, history=request.READER.history, finish=model_calls.finish)
