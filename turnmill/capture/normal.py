"""Messages of any provider in a normal form, by which conversations are compared. Pure.

The form lacks everything that clients change or drop when they send a history again: system prompts, notes that a
program writes in the user's name, thoughts, the server's tools, marks for caches, white space around texts, and the
splitting of a text into blocks. Consecutive messages of the same role are merged, since APIs differ in how they split
calls and results into messages.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import orjson

from turnmill.wire.envelope import encode
from turnmill.wire.program_words import is_note

Fields = dict[str, Any]
USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL: Final = "tool"
COMPACTED: Final = "\0compacted\0"  # begins the text of a summary that stands for all before it
UNMARKED: Final = frozenset({"cache_control", "cachePoint"})  # move from message to message in each request


class NormalMessage(NamedTuple):
    """One message: its role and text, and the ids of the tool calls that it makes or answers."""

    role: str
    text: str
    calls: tuple[str, ...] = ()


def messages(dialect: str, body: Any) -> list[NormalMessage]:
    """Return the conversation in a request body. The body may be any JSON; nothing is raised."""
    read = READERS.get(dialect)
    return since_compaction(merged(read(body))) if read is not None and isinstance(body, dict) else []


def merged(messages: Iterable[NormalMessage]) -> list[NormalMessage]:
    """Return messages with consecutive ones of the same role merged, texts stripped, and empty ones left out."""
    return stripped(joined(messages))


def joined(messages: Iterable[NormalMessage]) -> list[NormalMessage]:
    """Return messages with consecutive ones of the same role merged."""
    joined: list[NormalMessage] = []
    for message in messages:
        before = joined.pop() if joined and joined[-1].role == message.role else NormalMessage(message.role, "")
        joined.append(NormalMessage(message.role, before.text + message.text, before.calls + message.calls))
    return joined


def stripped(messages: Iterable[NormalMessage]) -> list[NormalMessage]:
    """Return messages without white space around their texts, and without empty ones."""
    stripped = (NormalMessage(message.role, message.text.strip(), message.calls) for message in messages)
    return [message for message in stripped if message.text or message.calls]


def since_compaction(messages: list[NormalMessage]) -> list[NormalMessage]:
    """Return messages from the last summary on: the server reads nothing before it."""
    for at in range(len(messages) - 1, -1, -1):
        _, found, text = messages[at].text.rpartition(COMPACTED)
        if found:
            return [messages[at]._replace(text=found + text), *messages[at + 1 :]]
    return messages


def chain(messages: Iterable[NormalMessage], before: bytes = b"") -> Iterator[bytes]:
    """Yield for each message a hash of it and of all messages before it. `before`: the hash of those left out."""
    for message in messages:
        now = hashlib.sha256(before)
        for piece in (message.role, message.text, *message.calls):
            data = piece.encode("utf-8", "surrogatepass")
            now.update(b"%d:" % len(data))
            now.update(data)
        before = now.digest()
        yield before


def _chat(body: Fields) -> Iterator[NormalMessage]:
    for message in objects(body.get("messages")):
        role = message.get("role")
        if role == "assistant":
            calls = [call.get("id") for call in objects(message.get("tool_calls"))]
            yield NormalMessage(ASSISTANT, _text(message.get("content")), _ids(calls))
        elif role in ("tool", "function"):
            yield NormalMessage(TOOL, _content(message.get("content")), _ids([message.get("tool_call_id")]))
        elif role == "user":
            yield NormalMessage(USER, _content(message.get("content")))


def _responses(body: Fields) -> Iterator[NormalMessage]:
    given = body.get("input")
    if isinstance(given, str):
        yield NormalMessage(USER, given)
    for item in objects(given):
        yield from response_item(item)


def response_item(item: Fields) -> Iterator[NormalMessage]:
    """Yield the message of an item of the Responses API, of an input or an output."""
    kind = item.get("type") or "message"
    if kind == "message" and item.get("role") == "assistant":
        yield NormalMessage(ASSISTANT, _text(item.get("content")))
    elif kind == "message" and item.get("role") == "user":
        yield NormalMessage(USER, _content(item.get("content")))
    elif isinstance(kind, str) and isinstance(item.get("call_id"), str):
        is_result = kind.endswith("_output")
        yield NormalMessage(
            TOOL if is_result else ASSISTANT, _content(item.get("output")) if is_result else "", _ids([item["call_id"]])
        )


def _anthropic(body: Fields) -> Iterator[NormalMessage]:
    for message in objects(body.get("messages")):
        content = message.get("content")
        if message.get("role") == "assistant":
            yield assistant_blocks(content)
        if message.get("role") != "user":  # a system message among them is configuration, and differs between calls
            continue
        for block in objects(content):
            if block.get("type") == "text" and is_note(str(block.get("text"))):
                continue
            result = block if block.get("type") == "tool_result" else block.get("toolResult")  # the latter: Converse
            if isinstance(result, dict):
                call = result.get("tool_use_id", result.get("toolUseId"))
                yield NormalMessage(TOOL, _content(result.get("content")), _ids([call]))
            else:
                yield NormalMessage(USER, _content([block]))
        if isinstance(content, str) and not is_note(content):
            yield NormalMessage(USER, content)


def assistant_blocks(content: Any) -> NormalMessage:
    """Return the message in an assistant's content of Anthropic's API, or of Bedrock's Converse."""
    uses = [block if block.get("type") == "tool_use" else block.get("toolUse") for block in objects(content)]
    calls = [use.get("id", use.get("toolUseId")) for use in objects(uses)]
    summaries = [block.get("content") for block in objects(content) if block.get("type") == "compaction"]
    summary = "".join(f"{COMPACTED}{text}" for text in summaries if isinstance(text, str))
    return NormalMessage(ASSISTANT, summary + _text(content), _ids(calls))


def _gemini(body: Fields) -> Iterator[NormalMessage]:
    contents = body.get("contents")
    for content in objects([contents] if isinstance(contents, dict) else contents):
        if content.get("role") == "model":
            yield model_parts(content.get("parts"))
            continue
        for part in objects(content.get("parts")):
            result = part.get("functionResponse", part.get("function_response"))
            if isinstance(result, dict):
                yield NormalMessage(
                    TOOL, _content(result.get("response")), _ids([result.get("id") or result.get("name")])
                )
            else:
                yield NormalMessage(USER, _content([part]))


def model_parts(parts: Any) -> NormalMessage:
    """Return the message in the parts of a model's content of Google's API."""
    spoken = [part for part in objects(parts) if not part.get("thought")]
    calls = [part.get("functionCall", part.get("function_call")) for part in spoken]
    ids = [call.get("id") or call.get("name") for call in calls if isinstance(call, dict)]
    return NormalMessage(ASSISTANT, _text(spoken), _ids(ids))


def _ollama(body: Fields) -> Iterator[NormalMessage]:
    yield ollama_message({"role": USER, "content": body.get("prompt"), "images": body.get("images")})
    for message in objects(body.get("messages")):
        if message.get("role") in (USER, ASSISTANT, TOOL):
            yield ollama_message(message)


def ollama_message(message: Fields) -> NormalMessage:
    """Return a message of Ollama's. Clients drop the ids of its calls: the names of tools stand for them."""
    functions = [call.get("function") for call in objects(message.get("tool_calls"))]
    calls = _ids([*(function.get("name") for function in objects(functions)), message.get("tool_name")])
    pictures = [{"images": message["images"]}] if message.get("images") else []
    return NormalMessage(str(message.get("role")), _content([message.get("content"), *pictures]), calls)


def _kept(body: Fields) -> Iterator[NormalMessage]:
    given = body.get("inputs", body.get("input"))
    for item in given if isinstance(given, list) else [given]:
        yield from entry(item if isinstance(item, dict) else {"content": item})


def entry(item: Fields) -> Iterator[NormalMessage]:
    """Yield the messages of an entry of Mistral's conversations, or of a step or a content of Gemini's interactions."""
    kind, content = str(item.get("type", "")), item.get("content")
    calls = _ids([item.get("tool_call_id") or item.get("call_id") or item.get("id")])
    is_model = item.get("role") in ("assistant", "model") or kind in ("message.output", "model_output")
    if isinstance(content, list):
        for block in objects(content):
            yield from entry({"role": ASSISTANT if is_model else USER, **block})
    elif kind in ("function.result", "function_result"):
        yield NormalMessage(TOOL, _content(item.get("result")), calls)
    elif kind in ("function.call", "function_call"):
        yield NormalMessage(ASSISTANT, "", calls)
    elif is_model:
        yield NormalMessage(ASSISTANT, _text(content or item.get("text")))
    elif not kind.endswith(("thought", "_call", "_result", "execution", "handoff")) and (kind or content is not None):
        yield NormalMessage(USER, _content([item] if content is None else content))


READERS: Final[dict[str, Callable[[Fields], Iterator[NormalMessage]]]] = {
    "anthropic": _anthropic,
    "bedrock": _anthropic,
    "cohere": _chat,
    "gemini": _gemini,
    "gemini-interactions": _kept,
    "mistral": _kept,
    "ollama": _ollama,
    "openai-chat": _chat,
    "openai-responses": _responses,
}


def token_id(token: Any) -> str | None:
    """Return the id of a `continuationToken` of Google's API, with which a request asks for the rest of an answer."""
    return f"token:{hashlib.sha256(token.encode()).hexdigest()}" if isinstance(token, str) and token else None


def objects(value: Any) -> Iterator[Fields]:
    """Return the objects in a list; none for any other value."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _ids(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str) and value)


def _text(content: Any) -> str:
    """Return the joined texts of a content without thoughts."""
    if isinstance(content, str):
        return content
    pieces = (block.get("text") for block in objects(content) if block.get("type") != "thinking")
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _content(content: Any) -> str:
    """Return the texts of a content, and hashes of everything else in it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else _hash(content)
    pieces = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            pieces.append(text)
        elif isinstance(block, dict) and (rest := {key: block[key] for key in block if key not in UNMARKED}):
            pieces.append(_hash(rest))
    return "".join(pieces)


def _hash(value: Any) -> str:
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate or an integer over 64 bits
        data = encode({"value": value})
    return f"\0{hashlib.sha256(data).hexdigest()}\0"
