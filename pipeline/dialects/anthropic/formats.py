"""Thread document -> messages of the Messages API.

Turns that came over the wire are restored from `meta:anthropic`: server tools with their results, citations, thoughts
with their signatures. In other threads, thoughts without a signature of Anthropic's are left out, as the API requires,
and so are files of the model and sources; other providers' own tool calls become calls with results. Results come in
the message after their calls, before any text; an unanswered call is left out, unless the thread ends with it.

Back: histories of the Messages API (`messages`) -> exchanges.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.anthropic import request
from pipeline.dialects.anthropic.keys import META
from pipeline.dialects.anthropic.message import REDACTED, MessageAnswer
from pipeline.dialects.exports import OwnIds, call_id, spoken, tool_name
from pipeline.dialects.history import MessagePlace, exchanges, fill_calls
from pipeline.dialects.wire_values import text_or_dumped
from topics import json_text
from topics.json_text import Fields
from topics.part_kinds import ANSWERS, CALLS

PROVIDER: Final = "anthropic"
# Source types of images and documents, and the key of each one's content.
SOURCES: Final = {"base64": "data", "url": "url", "file": "file_id", "text": "data", "content": "content"}


def messages(document: Fields) -> list[Fields]:
    """Return a thread's messages, oldest first, in turns of user and assistant; without system prompts."""
    messages: list[Fields] = []
    for turn in document["turns"]:
        for kind, message in spoken(turn):
            parts = message.get("parts", [])
            if kind == "asked":
                _say(messages, "user", _blocks_of_request(parts))
                continue
            ours = META in message or message.get("provider_name") == PROVIDER
            _say(messages, "assistant", [block for part in parts for block in _blocks_of_response(part, ours=ours)])
            foreign = [p for p in parts if p.get("part_kind") == "builtin-tool-return" and META not in p]
            _say(messages, "user", [_result(part) for part in foreign])
    paired = _apart(_paired(messages))
    return [{**message, "content": _short(message)} for message in paired if message["content"]]


def _say(messages: list[Fields], role: str, blocks: list[Fields]) -> None:
    """Append to the newest message if it has this role, or begin one."""
    if not blocks:
        return
    if not messages or messages[-1]["role"] != role:
        messages.append({"role": role, "content": []})
    content = messages[-1]["content"]
    if role == "user":  # results first
        last = next((n for n, block in enumerate(content) if block["type"] != "tool_result"), len(content))
        results = [block for block in blocks if block["type"] == "tool_result"]
        content[last:last] = results
        blocks = [block for block in blocks if block["type"] != "tool_result"]
    content.extend(blocks)


def _blocks_of_request(parts: Any) -> list[Fields]:
    asked: list[Fields] = []
    for part in parts:
        kind = part.get("part_kind")
        if kind in ANSWERS and (kind == "tool-return" or part.get("tool_name")):
            asked.append(_result(part))
        elif kind in ("user-prompt", "retry-prompt"):
            asked += _words(part)
        elif kind == "file":
            asked += [{**_block_of_content(part.get("content")), **part.get(META, {})}]
    return asked


def _words(part: Fields) -> Iterator[Fields]:
    meta, content = part.get(META, {}), part.get("content")
    if "block" in meta:
        yield meta["block"]
        return
    for piece in content if isinstance(content, list) else [content]:
        block = _block_of_content(piece)
        if block.get("text") != "":  # the API refuses empty texts
            yield {**block, **meta}


def _blocks_of_response(part: Fields, *, ours: bool) -> Iterator[Fields]:
    """Yield the blocks of a response's part; a block of an unknown type is restored unchanged."""
    kind, meta = part.get("part_kind", ""), part.get(META, {})
    if kind == "text":
        if part.get("content"):
            yield {"type": "text", "text": part["content"], **meta}
    elif kind == "thinking":
        yield from _thought(part)
    elif kind in CALLS:
        named = {
            "id": call_id(part.get("tool_call_id")),
            "name": tool_name(part.get("tool_name")),
            "input": _input(part.get("args")),
        }
        yield {"type": "tool_use", **meta, **named}
    elif kind == "builtin-tool-return" and META in part:
        yield {**meta, "tool_use_id": call_id(part.get("tool_call_id")), "content": part.get("content")}
    elif ours and kind.startswith("custom:") and isinstance(part.get("block"), dict):
        yield part["block"]


def _thought(part: Fields) -> Iterator[Fields]:
    signature = part.get("signature")
    if not signature or not (META in part or part.get("provider_name") == PROVIDER):
        return
    if part.get("thinking_id") == REDACTED:
        yield {"type": REDACTED, "data": signature}
    else:
        yield {"type": "thinking", "thinking": part.get("content") or "", "signature": signature}


def _result(part: Fields) -> Fields:
    content = part.get("content")
    blocks = isinstance(content, list) and bool(content) and all(_is_block(block) for block in content)
    fields: Fields = {"type": "tool_result", "tool_use_id": call_id(part.get("tool_call_id"))}
    fields["content"] = (
        content if blocks or isinstance(content, str) else "" if content is None else json_text.dumps(content)
    )
    if part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success":
        fields["is_error"] = True
    return fields


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind in ("image", "document"):
        source = value.get("source")
        return isinstance(source, dict) and SOURCES.get(str(source.get("type"))) in source
    return isinstance(value.get({"text": "text", "search_result": "source"}.get(str(kind))), str)


def _block_of_content(piece: Any) -> Fields:
    if not isinstance(piece, dict):
        return {"type": "text", "text": text_or_dumped(piece)}
    media, kind = str(piece.get("media_type") or ""), piece.get("kind")
    name = "image" if media.startswith("image/") or kind == "image-url" else "document"
    if isinstance(piece.get("data"), str) and (name == "image" or media == "application/pdf"):
        return {"type": name, "source": {"type": "base64", "media_type": media, "data": piece["data"]}}
    if isinstance(piece.get("url"), str) and kind in ("image-url", "document-url"):
        return {"type": name, "source": {"type": "url", "url": piece["url"]}}
    if kind == "custom:anthropic" and isinstance(piece.get("block"), dict):
        return dict(piece["block"])
    if kind == "text-content" and isinstance(piece.get("content"), str):
        return {"type": "text", "text": piece["content"]}
    return {"type": "text", "text": piece["url"] if isinstance(piece.get("url"), str) else json_text.dumps(piece)}


def _input(args: Any) -> Any:
    """Return the arguments of a call as an object: the API accepts nothing else."""
    return args if isinstance(args, dict) else {} if args is None else {"INVALID_JSON": json_text.dumps(args)}


def _paired(messages: list[Fields]) -> list[Fields]:
    """Return the messages so that each call has its result in the next message, and each result its call."""
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        behind = messages[index + 1] if index + 1 < len(messages) else None
        answered = {b["tool_use_id"] for b in behind["content"] if b["type"] == "tool_result"} if behind else set()
        message["content"] = [
            block
            for block in message["content"]
            if block["type"] != "tool_use" or behind is None or block["id"] in answered
        ]
    for index, message in enumerate(messages):
        if message["role"] == "user":
            before = messages[index - 1]["content"] if index else []
            calls = {block["id"] for block in before if block["type"] == "tool_use"}
            message["content"] = [
                b for b in message["content"] if b["type"] != "tool_result" or b["tool_use_id"] in calls
            ]
    return messages


def _apart(messages: list[Fields]) -> list[Fields]:
    """Return the messages with a unique id for each call, as the API requires."""
    blocks = [block for message in messages for block in message["content"]]
    ids = OwnIds(block["id"] for block in blocks if block["type"] == "tool_use")
    return [
        {**message, "content": [_with_valid_names(block, ids) for block in message["content"]]} for message in messages
    ]


def _with_valid_names(block: Fields, ids: OwnIds) -> Fields:
    match block["type"]:
        case "tool_use":
            return {**block, "id": ids.of_call(block["id"])}
        case "tool_result":
            return {**block, "tool_use_id": ids.of_result(block["tool_use_id"])}
    return block


def _short(message: Fields) -> Any:
    """Return a user's content; a single plain text as a string."""
    content = message["content"]
    bare = message["role"] == "user" and len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if bare else content


def _place_in_exchange(message: Fields) -> MessagePlace:
    """Return a position by which a history is cut before each user message that follows an answer without calls."""
    if message["role"] == "user":
        return MessagePlace.PROMPT
    calls = any(block.get("type") == "tool_use" for block in request.blocks(message))
    return MessagePlace.ANSWER if message["role"] == "assistant" and not calls else MessagePlace.MIDDLE


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run."""
    names: Fields = {}
    return fill_calls(builder, messages, request.READER, partial(_respond, names))


def _respond(names: Fields, builder: Builder, message: Fields) -> None:
    response = builder.open_response()
    response.keep_empty = True
    answer = MessageAnswer(response, "anthropic", names)
    answer.start({"content": request.blocks(message)}, builder.at)
    answer.settle(whole=True)
    for call in answer.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)


READER: Final = Reader(partial(exchanges, place_of=_place_in_exchange), fill)
