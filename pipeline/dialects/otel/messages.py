"""Messages of any emitter's spans as messages of Chat Completions.

No two emitters agree on the form: parts of OpenTelemetry's conventions, of the AI SDK and of Google, flat attributes,
items of the Responses API, dumps of LangChain. A value is read by the keys that it has, whoever wrote it; values may be
any JSON, and JSON in a string is the same as the value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.dialects.wire_values import text_or_empty, text_or_json
from topics import json_text
from topics.json_text import Fields, list_of, object_of, objects

ROLES: Final = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "model", "AIMessage", "AIMessageChunk", "function_call", "reasoning"), "assistant"
    ),
    **dict.fromkeys(("tool", "function", "ToolMessage", "function_call_output"), "tool"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
}
WRAPPED: Final = ("kwargs", "data", "message", "tool_call", "message_content")  # keys that hold the value itself
CHUNK_FINISH: Final = ""  # the finish reason of a chunk in Google ADK's streams


def parsed(value: Any) -> Any:
    """Return a value; if it is JSON in a string, what that says."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return json_text.loads(value)
        except ValueError:
            return value
    return value


def flat(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Return the list that attributes such as PREFIX.0.message.role spell out, in the order of its numbers."""
    tree: Fields = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            at, (*path, last) = tree, name.removeprefix(prefix).split(".")
            for key in path:
                inner = at.setdefault(key, {})
                at = inner if isinstance(inner, dict) else {}
            at[last] = value
    return list_of(_listed(tree))


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    items = {key: _listed(item) for key, item in value.items()}
    if items and all(key.isdecimal() and key.isascii() and len(key) < 10 for key in items):
        return [items[key] for key in sorted(items, key=int)]
    return items


def chat_messages(value: Any, *, results_wrapped: bool = False) -> list[Fields]:
    """Return messages of Chat Completions. `results_wrapped`: results are {"result": RESULT}, as in Google ADK."""
    value = parsed(value)
    if isinstance(value, dict):
        inner = next(
            (value[key] for key in ("messages", "contents", "input") if isinstance(value.get(key), list)), None
        )
        value = [value] if inner is None else inner
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value else []
    items = [item for each in list_of(value) for item in (each if isinstance(each, list) else [each])]
    return [message for item in items for message in _Message(wrapped=results_wrapped).read(item)]


def answer_of(messages: list[Fields]) -> Fields:
    """Return the model's messages of an answer as a whole: its text, thought and calls; {} if they say nothing.

    A stream of Google ADK has a message for each chunk, and then the whole again.
    """
    said = [message for message in messages if message["role"] == "assistant"]
    chunks = [message for message in said[:-1] if message.get("finish_reason") == CHUNK_FINISH]
    if chunks and said[-1]["content"] == "".join([chunk["content"] or "" for chunk in chunks]):
        said = said[-1:]
    texts, thoughts = ("".join([each.get(key) or "" for each in said]) for key in ("content", "reasoning_content"))
    calls = [call for message in said for call in message.get("tool_calls", ())]
    answer = {"content": texts or None, "reasoning_content": thoughts or None, "tool_calls": calls or None}
    answer = {key: each for key, each in answer.items() if each is not None}
    return {"role": "assistant", **answer} if answer else {}


def result_of(value: Any, *, wrapped: bool = False) -> Any:
    """Return what a tool returned: without the quotes of JSON, and without what frameworks put around it."""
    inner = parsed(value)
    match inner:
        case str():
            return inner
        case {"output": {"content": content}} | {"data": {"content": content}} | {"kwargs": {"content": content}}:
            return result_of(content)
        case {"result": result} if wrapped and len(inner) == 1:
            return result
    return inner if isinstance(value, str) and isinstance(inner, dict | list) and wrapped else value


def call_id_in(value: Any) -> str | None:
    """Return the id of the call that a tool's output names."""
    match parsed(value):
        case {"output": {"tool_call_id": str(name)}} | {"data": {"tool_call_id": str(name)}}:
            return name
        case {"kwargs": {"tool_call_id": str(name)}} | {"tool_call_id": str(name)}:
            return name
        case {"output": dict() | str() as inner} | {"outputs": dict() | str() as inner}:
            return call_id_in(inner)
    return None


@dataclass(slots=True)
class _Message:
    """The pieces of a message, as they are read."""

    wrapped: bool
    blocks: list[Any] = field(default_factory=list)  # texts, and content of other kinds as Chat Completions writes it
    thoughts: list[str] = field(default_factory=list)
    calls: list[Fields] = field(default_factory=list)
    results: list[Fields] = field(default_factory=list)

    def read(self, value: Any) -> Iterator[Fields]:
        """Yield a message as those of Chat Completions: each result of a tool is a message."""
        message = {"role": "user", "content": value} if isinstance(value, str) else object_of(value)
        for key in WRAPPED:
            if isinstance(message.get(key), dict) and not ("role" in message or "content" in message):
                message = {**message, **object_of(message[key])}
        role = ROLES.get(text_or_empty(message.get("role") or message.get("type")), "")
        if not role:
            role = "assistant" if "function_call" in message or message.get("type") == "message" else "user"
        content = message.get("content")
        if not isinstance(content, str | list) or not content:
            content = message.get("parts") or message.get("contents") or content
        if message.get("type") in ("function_call", "function_call_output", "reasoning"):
            content = [message]
        thought = message.get("reasoning_content") or message.get("reasoning")
        self.thoughts += [thought] if isinstance(thought, str) else []
        call_id = message.get("tool_call_id") or (message.get("id") if role == "tool" else None)
        if role == "tool" and isinstance(call_id, str) and not _answers(content):
            self._add_result(call_id, "".join(_texts(content)) if isinstance(content, list) else content)
        else:
            for piece in content if isinstance(content, list) else [content]:
                self._add(piece)
        if "function_call" in message and not self.calls:
            self._add({"function_call": message["function_call"]})
        known = {call["id"] for call in self.calls}
        for call in objects(parsed(message.get("tool_calls"))):
            self._add_call({**call, **object_of(call.get("tool_call"))}, known)
        yield from self.results
        if role == "assistant":
            texts = "".join([block for block in self.blocks if isinstance(block, str)])
            spoken: Fields = {"role": role, "content": texts or None, "finish_reason": message.get("finish_reason")}
            spoken |= {"reasoning_content": "".join(self.thoughts)} if self.thoughts else {}
            yield spoken | ({"tool_calls": self.calls} if self.calls else {})
        elif self.blocks:
            role = "user" if role == "tool" else role
            texts_alone = len(self.blocks) == 1 and isinstance(self.blocks[0], str)
            blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in self.blocks]
            yield {"role": role, "content": self.blocks[0] if texts_alone else blocks}

    def _add(self, piece: Any) -> None:
        match piece:
            case None:
                pass
            case str():
                self.blocks += [piece] if piece else []
            case {"message_content": dict(inner)}:
                self._add(inner)
            case {"type": "thinking" | "reasoning" | "thought", **rest}:
                summary = rest.get("content") or rest.get("text") or rest.get("thinking") or rest.get("summary")
                self.thoughts += [summary] if isinstance(summary, str) else _texts(summary)
            case {"text": str(text), "thought": True}:
                self.thoughts.append(text)
            case {"type": "tool_call" | "tool-call" | "tool_use" | "function_call"} | {"function_call": dict()}:
                self._add_call({**piece, **object_of(piece.get("function_call"))}, set())
            case {"function_response": dict(told)}:
                self._add_result(told.get("id"), told.get("response"))
            case {"type": "tool_call_response" | "tool-result" | "tool_result" | "function_call_output"}:
                call_id = piece.get("call_id") or piece.get("id") or piece.get("toolCallId") or piece.get("tool_use_id")
                names = ("response", "result", "output", "content")
                self._add_result(call_id, next((piece[name] for name in names if name in piece), None))
            case {"type": "blob", "content": str(data)} | {"type": "file", "data": str(data)}:
                media = piece.get("mime_type") or piece.get("mediaType") or "application/octet-stream"
                self._add_media(
                    data if data.startswith(("data:", "http")) else f"data:{media};base64,{data}", str(media)
                )
            case {"type": "uri", "uri": str(uri)}:
                self._add_media(uri, str(piece.get("mime_type") or f"{piece.get('modality', 'application')}/*"))
            case {"type": "image", "image": {"image": {"url": str(url)}}} | {"type": "image", "image": str(url)}:
                self._add_media(url, "image/*")
            case {"type": str(), "content": str(text)} | {"type": str(), "text": str(text)} | {"text": str(text)}:
                self.blocks += [text] if text else []
            case dict():
                self.blocks.append(piece)

    def _add_media(self, url: str, media: str) -> None:
        if media.startswith("image/"):
            self.blocks.append({"type": "image_url", "image_url": {"url": url}})
        else:
            self.blocks.append({"type": "file", "file": {"file_data": url}})

    def _add_call(self, call: Fields, known: set[str]) -> None:
        function = object_of(call.get("function")) or call
        call_id = text_or_empty(call.get("call_id") or call.get("id") or call.get("toolCallId"))
        arguments = next((function[key] for key in ("arguments", "args", "input") if key in function), None)
        if not call_id or call_id not in known:
            name = text_or_empty(function.get("name") or function.get("toolName"))
            text = "{}" if arguments is None else text_or_json(arguments)
            self.calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": text}})

    def _add_result(self, call_id: Any, value: Any) -> None:
        match value:
            case {"type": "text" | "json" | "error-text" | "error-json", "value": inner}:  # the AI SDK's
                value = inner
        content = result_of(value, wrapped=self.wrapped) if self.wrapped else value
        self.results.append({"role": "tool", "tool_call_id": text_or_empty(call_id), "content": content})


def _answers(content: Any) -> bool:
    kinds = ("tool_call_response", "tool-result", "tool_result")
    return any(piece.get("type") in kinds for piece in objects(content))


def _texts(pieces: Any) -> list[str]:
    """Return the texts of pieces, under any key that holds them."""
    texts = [piece.get("text") or piece.get("content") for piece in objects(pieces)]
    return [text for text in texts if isinstance(text, str)]
