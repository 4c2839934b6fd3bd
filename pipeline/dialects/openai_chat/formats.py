"""Thread document -> messages of Chat Completions: user, assistant, tool.

Turns that came over the wire are restored from `meta:openai_chat`. In other threads, files of the model and sources are
left out, as an assistant message can't contain them; a provider's tool calls become calls with results; a thought
is left out, unless the server requires its own back. Every call is followed by its result, as servers require: an
unanswered one is left out, unless the thread ends with it.

Back: histories of Chat Completions (`messages`) -> exchanges.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.exports import Names, args_text, call_id, paired, spoken, tool_name
from pipeline.dialects.history import MessagePlace, exchanges, fill_calls
from pipeline.dialects.openai_chat import request
from pipeline.dialects.openai_chat.answer import ChoiceAnswer
from pipeline.dialects.openai_chat.calls import CUSTOM, written
from pipeline.dialects.openai_chat.keys import META, REFUSAL, note
from pipeline.dialects.openai_chat.thoughts import NOTED
from pipeline.dialects.wire_values import text_or_dumped
from topics.json_text import Fields, filled
from topics.part_kinds import CALLS, RESULTS

NAMES: Final = Names("role", "assistant", "tool", "tool_call_id", ("tool_calls",), ("content", "refusal"))
CALL_KEYS: Final = ("tool_calls", "function_call")


def messages(document: Fields) -> list[Fields]:
    """Return a thread's messages, oldest first; without system prompts, which threads do not contain."""
    messages: list[Fields] = []
    for turn in document["turns"]:
        for kind, message in spoken(turn):
            messages += (
                _messages_of_response(message) if kind == "answered" else _messages_of_request(message.get("parts", ()))
            )
    return paired(messages, NAMES)


def _messages_of_request(parts: Any) -> Iterator[Fields]:
    """Yield parts of a user turn or a request as messages: results, then prompts."""
    for part in parts:
        kind = part.get("part_kind")
        if kind in RESULTS and (kind != "retry-prompt" or part.get("tool_name")):
            yield _result(part)
    for part in parts:
        kind = part.get("part_kind")
        if kind == "user-prompt":
            meta = part.get(META, {})
            content = meta.get("blocks") or _content(part.get("content"))
            yield {"role": "user", "content": content, **({"name": meta["name"]} if "name" in meta else {})}
        elif kind == "file":
            yield {"role": "user", "content": [block(part.get("content"))]}
        elif kind == "retry-prompt" and not part.get("tool_name"):
            yield {"role": "user", "content": text_or_dumped(part.get("content"))}


def _messages_of_response(response: Fields) -> Iterator[Fields]:
    """Yield a response as the assistant's message, and the results of the provider's tools."""
    parts = response.get("parts", [])
    texts = [part for part in parts if part.get("part_kind") == "text"]
    text = "".join(part.get("content") or "" for part in texts if not part.get(REFUSAL))
    refusal = "".join(part.get("content") or "" for part in texts if part.get(REFUSAL))
    calls = [_call(part) for part in parts if part.get("part_kind") in CALLS]
    message: Fields = {"role": "assistant", "content": text or (None if calls or refusal else "")}
    message |= filled({"refusal": refusal})
    for part in parts:
        if part.get("part_kind") == "thinking":
            message |= _thought(part, has_calls=bool(calls))
    if "content_blocks" in message and text:  # they stand for the content
        message["content_blocks"] = [*message["content_blocks"], {"type": "text", "text": text}]
    if "extra_content" in response.get(META, {}):
        message["extra_content"] = response[META]["extra_content"]
    yield message | filled({"tool_calls": calls})
    for part in parts:
        if part.get("part_kind") == "builtin-tool-return":
            yield _result(part)


def _thought(part: Fields, *, has_calls: bool) -> Fields:
    """Return details, for the server that signed them; a bare thought only beside calls, where servers require it."""
    meta = part.get(META, {})
    if noted := {key: meta[key] for key in NOTED if key in meta}:
        return noted
    return {meta["key"]: part.get("content") or ""} if has_calls and "key" in meta else {}


def _call(part: Fields) -> Fields:
    args, (beside, within) = part.get("args"), written(part)
    if part.get(CUSTOM) and isinstance(args, dict):
        custom = {"name": tool_name(part.get("tool_name")), "input": str(args.get("input", ""))}
        return {"id": part.get("tool_call_id") or call_id(""), "type": "custom", "custom": custom, **beside}
    function = {"name": tool_name(part.get("tool_name")), "arguments": args_text(args), **within}
    return {"id": part.get("tool_call_id") or call_id(""), "type": "function", "function": function, **beside}


def _result(part: Fields) -> Fields:
    content = part.get("content")
    if not _is_text_blocks(content):
        content = text_or_dumped(content) if content is not None else ""
    return {"role": "tool", "tool_call_id": part.get("tool_call_id") or call_id(""), "content": content}


def _content(content: Any) -> Any:
    """Return a user's content: a text, or blocks."""
    if isinstance(content, str):
        return content
    return [block(piece) for piece in content] if isinstance(content, list) else text_or_dumped(content)


def block(piece: Any) -> Fields:
    """Return a piece of content as a block of a message."""
    if not isinstance(piece, dict):
        return {"type": "text", "text": text_or_dumped(piece)}
    media = str(piece.get("media_type") or "")
    if piece.get("kind") == "binary" and isinstance(piece.get("data"), str):
        return _binary(piece["data"], media)
    if piece.get("kind") == "image-url" and isinstance(piece.get("url"), str):
        return {"type": "image_url", "image_url": {"url": piece["url"]}}
    if piece.get("kind") == "text-content" and isinstance(piece.get("content"), str):
        return {"type": "text", "text": piece["content"]}
    if isinstance(piece.get("block"), dict) and piece.get("kind") == "custom:openai_chat":
        return dict(piece["block"])
    return {"type": "text", "text": piece["url"] if isinstance(piece.get("url"), str) else text_or_dumped(piece)}


def _binary(data: str, media: str) -> Fields:
    url = f"data:{media};base64,{data}"
    kind, _, form = media.partition("/")
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": "mp3" if form == "mpeg" else form}}
    return {"type": "file", "file": {"file_data": url, "filename": f"file.{form or 'bin'}"}}


def _is_text_blocks(content: Any) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(block, dict) and block.keys() == {"type", "text"} for block in content)
    )


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer without calls; system messages are not part of a thread."""
    return exchanges(
        [message for message in messages if message["role"] not in ("system", "developer")], _place_in_exchange
    )


def _place_in_exchange(message: Fields) -> MessagePlace:
    if message["role"] == "user":
        return MessagePlace.PROMPT
    calls = any(message.get(key) for key in CALL_KEYS)
    return MessagePlace.ANSWER if message["role"] == "assistant" and not calls else MessagePlace.MIDDLE


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run."""
    return fill_calls(builder, messages, request.READER, _respond)


def _respond(builder: Builder, message: Fields) -> None:
    response = builder.open_response()
    response.keep_empty = True
    answer = ChoiceAnswer(response)
    answer.add(message, builder.at, whole=True)
    answer.settle(whole=True)
    audio = message.get("audio")
    if isinstance(audio, dict):
        note(response.fields, {"audio": audio})
    for call in answer.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)


READER: Final = Reader(split, fill)
