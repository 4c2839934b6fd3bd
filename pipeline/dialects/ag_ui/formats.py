"""Thread document -> AG-UI messages, as RunAgentInput takes them: user, assistant, tool, reasoning.

Turns that came over AG-UI get their ids back; in other threads ids are derived from the turn's. Files of the model,
sources and errors can't be expressed in these messages and are left out.

Back: histories of AG-UI messages (`agent.messages`, or `messages` of a RunAgentInput) -> exchanges.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.ag_ui.messages import add_user_turn, begin, item_of, write_items
from pipeline.dialects.ag_ui.stream import BUILTIN, META, Stream
from pipeline.dialects.ag_ui.turn import write
from pipeline.dialects.exports import args_text, spoken
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.signatures import signature_of
from pipeline.dialects.wire_values import text_or_json
from topics.json_text import Fields

BY_ADDRESS: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "document"}
MEDIA: Final = frozenset({"image", "audio", "video", "document"})


def messages(document: Fields) -> list[Fields]:
    """Return messages of a RunAgentInput, oldest first."""
    messages: list[Fields] = []
    for turn in document.get("turns", ()):
        made = [dict(message) for message in _turn(turn)]
        for number, message in enumerate(made):
            message["id"] = message["id"] or f"{turn.get('meta:turn_id', 'turn')}-{number}"
        messages += made
    return list(_paired(messages))


def _paired(messages: list[Fields]) -> Iterator[Fields]:
    """Yield the messages without results that have no call before them, and without unanswered earlier calls."""
    waiting: dict[str, list[Fields]] = {}  # the calls of an id, oldest first
    answered: list[Fields] = []
    orphans: list[Fields] = []
    for message in messages:
        for call in message.get("toolCalls", ()):
            waiting.setdefault(call["id"], []).append(call)
        if message["role"] == "tool":
            calls = waiting.get(message["toolCallId"])
            (answered if calls else orphans).append(calls.pop(0) if calls else message)
    end = max((n for n, message in enumerate(messages) if message["role"] != "tool"), default=-1)
    closing = (n for n, m in enumerate(messages) if m["role"] == "user" or (m["role"] == "tool" and n < end))
    spoken = max(closing, default=-1)
    for index, message in enumerate(messages):
        if any(message is orphan for orphan in orphans):
            continue
        if "toolCalls" not in message or index > spoken:
            yield message
            continue
        calls = [call for call in message["toolCalls"] if any(call is other for other in answered)]
        rest = {key: value for key, value in message.items() if key != "toolCalls"}
        if calls:
            yield {**rest, "toolCalls": calls}
        elif "content" in rest:
            yield rest


def _turn(turn: Fields) -> Iterator[Fields]:
    for kind, message in spoken(turn):
        yield from (_request if kind == "asked" else _response)(message.get("parts", ()))


def _request(parts: Any) -> Iterator[Fields]:
    """Yield results of tools, and prompts of the user."""
    for part in parts:
        kind, meta = part.get("part_kind"), part.get(META, {})
        if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            yield _result(part, str(part.get("tool_call_id", "")))
        elif kind in ("user-prompt", "retry-prompt", "text"):
            content = part.get("content", "")
            prompt = text_or_json(content) if kind == "retry-prompt" else _prompt_content(content)
            name = {"name": meta["name"]} if "name" in meta else {}
            yield {"id": meta.get("id"), "role": "user", "content": prompt, **name}


def _result(part: Fields, call_id: str) -> Fields:
    meta = part.get(META, {})
    content = part["content_ref"] if "content" not in part and "content_ref" in part else part.get("content")
    failed = part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success"
    failed = failed or part.get("outcome", "success") != "success"
    message: Fields = {"id": meta.get("id"), "role": "tool", "toolCallId": call_id, "content": _result_content(content)}
    if "encryptedValue" in meta:
        return {**message, "encryptedValue": meta["encryptedValue"]}
    return {**message, "error": str(meta.get("error") or text_or_json(content))} if failed else message


def _response(parts: Any) -> Iterator[Fields]:
    """Yield thoughts, and messages of text and calls: as they came, or as few as possible."""
    open_message: Fields | None = None
    for part in parts:
        kind, meta = part.get("part_kind", ""), part.get(META, {})
        if kind in ("text", "tool-call", "builtin-tool-call"):
            identity = meta.get("id", meta.get("parent"))
            if open_message is None or (identity is not None and identity != open_message["id"]):
                if open_message is not None:
                    yield open_message
                open_message = {"id": identity, "role": "assistant"}
            if kind == "text":
                open_message["content"] = open_message.get("content", "") + (part.get("content") or "")
            else:
                open_message.setdefault("toolCalls", []).append(_call(part))
            continue
        if kind not in ("thinking", "builtin-tool-return"):
            continue
        if open_message is not None:
            yield open_message
            open_message = None
        if kind == "thinking":
            encrypted = meta.get("encryptedValue") or part.get("signature")
            sealed = {"encryptedValue": encrypted} if isinstance(encrypted, str) else {}
            yield {"id": meta.get("id"), "role": "reasoning", "content": part.get("content") or "", **sealed}
        else:
            yield _result(part, _provider_call(part))
    if open_message is not None:
        yield open_message


def _call(part: Fields) -> Fields:
    builtin = part["part_kind"] == "builtin-tool-call"
    call_id = _provider_call(part) if builtin else str(part.get("tool_call_id", ""))
    function = {"name": str(part.get("tool_name", "")), "arguments": args_text(part.get("args"))}
    encrypted = part.get(META, {}).get("encryptedValue", signature_of(part))
    sealed = {"encryptedValue": encrypted} if encrypted is not None else {}
    return {"id": call_id, "type": "function", "function": function, **sealed}


def _provider_call(part: Fields) -> str:
    return f"{BUILTIN}|{part.get('provider_name') or ''}|{part.get('tool_call_id', '')}"


def _result_content(content: Any) -> Any:
    """Return a text, or a list of AG-UI's parts; any other value as JSON text."""
    return content if isinstance(content, list) and content and all(map(_is_part, content)) else text_or_json(content)


def _is_part(value: Any) -> bool:
    match value:
        case {"type": "text", "text": str()}:
            return True
        case {"type": str(kind), "source": {"type": "data" | "url" | "file", "value": str()}}:
            return kind in MEDIA
    return False


def _prompt_content(content: Any) -> Any:
    """Return the content of a user-prompt as that of a user's message."""
    if not isinstance(content, list):
        return text_or_json(content)
    pieces = [_input_content(item) for item in content]
    return [piece for piece in pieces if piece is not None]


def _input_content(item: Any) -> Fields | None:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if not isinstance(item, dict):
        return None
    if item.get("kind") == "custom:ag-ui":
        return item["part"] if isinstance(item.get("part"), dict) else None
    if item.get("kind") == "text-content":
        return {"type": "text", "text": str(item.get("content", ""))}
    media_type = item.get("media_type") or item.get("content_type")
    kind = BY_ADDRESS.get(str(item.get("kind"))) or _media(media_type)
    if isinstance(item.get("data"), str):
        source = {"type": "data", "value": item["data"], "mimeType": media_type or "application/octet-stream"}
    elif isinstance(item.get("url"), str):
        source = {"type": "url", "value": item["url"], **({"mimeType": media_type} if media_type else {})}
    else:
        return None
    return {"type": kind, "source": source}


def _media(media_type: Any) -> str:
    kind = str(media_type).partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer; system messages are not part of a thread."""
    told = [message for message in messages if message["role"] not in ("system", "developer")]
    return exchanges(told, lambda message: MessagePlace.PROMPT if message["role"] == "user" else MessagePlace.ANSWER)


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the messages of a finished run."""
    begin(builder)
    stream: Stream = builder.scratch["stream"]
    items = [item for item in (item_of(message, builder.at) for message in messages) if item is not None]
    add_user_turn(builder, [item for item in items if item.role == "user"])
    write_items(stream, [item for item in items if item.role != "user"])
    write(builder, stream, "complete")
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill)
