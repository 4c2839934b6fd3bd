"""The body with which a chat server was called (`run.request`): the user's turn, or the turn that is continued.

`useChat` posts {"id", "messages": [UIMessage], "trigger"}; some servers take {"message": UIMessage} or the bare list.
If the last message is the assistant's, this stream continues it: after an approval, or with the results of tools that
ran in the client.
"""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.dialects.vercel_ai.stream import Stream, note
from pipeline.turns.lineage import History
from topics.json_text import Fields, object_of, objects

ANSWERED: Final = ("output-available", "output-error")
OF_RESULT: Final = frozenset({"state", "output", "errorText", "preliminary", "resultProviderMetadata"})


def begin(builder: Builder) -> None:
    """Read the user's turn from the request body; a body of another shape is ignored."""
    stream = Stream()
    builder.scratch["stream"] = stream
    builder.returns_by_call = False  # `settle` orders the results when the turn is over
    messages = _messages(builder.context.request)
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        _continue(builder, stream, last)
    elif last.get("role") == "user" and not _regenerates(builder.context.request):
        add_user_turn(builder, _last_words(messages))


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    return History(_messages(body), again=_regenerates(body))


def _messages(body: Any) -> list[Fields]:
    if isinstance(body, dict):
        body = body["messages"] if isinstance(body.get("messages"), list) else [body.get("message")]
    return objects(body)


def _regenerates(body: Any) -> bool:
    """Return True if the user requests another answer to messages that are stored already."""
    return isinstance(body, dict) and body.get("trigger") == "regenerate-message"


def _last_words(messages: list[Fields]) -> list[Fields]:
    """Return the user's messages after the assistant's last."""
    last_words: list[Fields] = []
    for message in reversed(messages):
        if message.get("role") != "user":
            break
        last_words.insert(0, message)
    return last_words


def add_user_turn(builder: Builder, messages: Sequence[Fields]) -> None:
    """Add the user's messages as one turn, a prompt each. Messages without parts are left out."""
    prompts: list[Fields] = []
    for message in messages:
        prompt = user_prompt(_parts(message))
        if prompt is not None:
            note(prompt, {"id": message.get("id"), "metadata": message.get("metadata")})
            prompts.append(prompt)
    if prompts:
        builder.user_turn(prompts)


def _continue(builder: Builder, stream: Stream, message: Fields) -> None:
    """Remember the last step's calls, for the results in this stream, and add those that the client made."""
    note(builder.notes, {"id": message.get("id"), "metadata": message.get("metadata")})
    for part in _parts(message):
        kind = object_of(part).get("type")
        if not isinstance(kind, str):
            continue
        if kind == "step-start":
            stream.earlier.clear()
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            call_id = part.get("toolCallId")
            if isinstance(call_id, str) and not part.get("providerExecuted"):
                stream.earlier[call_id] = part
    for call_id, part in stream.earlier.items():
        if part.get("state") in ANSWERED and not part.get("preliminary"):
            failed = part["state"] == "output-error"
            content = part.get("errorText") if failed else part.get("output")
            answer_earlier(builder, stream, call_id, {"status": "error" if failed else "success", "content": content})


def answer_earlier(builder: Builder, stream: Stream, call_id: str, fields: Fields) -> None:
    """Add the result of a call of an earlier run to the request that opens this turn."""
    if stream.opening is None:
        stream.opening = Message("request", builder.at, closed=True)
        builder.messages.insert(0, stream.opening)
    call = stream.earlier.get(call_id, {})
    name = call.get("toolName")
    name = name if isinstance(name, str) else str(call.get("type", "")).removeprefix("tool-")
    answer = {"part_kind": "tool-return", "tool_name": name, "tool_call_id": call_id, **fields}
    if call:
        note(answer, {"call": {key: value for key, value in call.items() if key not in OF_RESULT}})
    for part in stream.opening.parts:
        if part.fields["tool_call_id"] == call_id:
            part.fields = answer
            return
    stream.opening.parts.append(Part(answer, done=True))


def _parts(message: Fields) -> list[Any]:
    parts = message.get("parts")
    if isinstance(parts, list):
        return parts
    content = message.get("content")  # AI SDK 4
    return [{"type": "text", "text": content}] if isinstance(content, str) else []
