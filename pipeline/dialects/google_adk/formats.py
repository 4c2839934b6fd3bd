"""Thread document -> the events of an ADK session, as `append_event` takes them.

Turns that came from ADK are restored from `meta:adk`. In other threads, a provider's tool calls become calls with
results; signatures of other providers, and everything outside the conversation, are left out.

Back: sessions of ADK, as their events, or bare Contents -> exchanges.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.google_adk.event import IDENTITY, USER, Memory, read
from pipeline.dialects.google_adk.events import apply
from pipeline.dialects.google_adk.parts import CODE, META, spelled
from pipeline.dialects.google_adk.whole import PREFIX
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.signatures import signature_of
from pipeline.turns.times import epoch_ms
from topics import json_text
from topics.json_text import Fields
from topics.part_kinds import ANSWERS, CALLS

# Fields of a response's `meta:adk` that an Event has; keys added by others are not exported.
KEPT: Final = frozenset(
    {*IDENTITY, "finishReason", "errorCode", "errorMessage", "longRunningToolIds", "nodeInfo", "isolationScope"}
    | {"avgLogprobs", "groundingMetadata", "citationMetadata", "cacheMetadata", "customMetadata", "interactionId"}
    | {"output", "turnComplete", "interrupted", "inputTranscription", "outputTranscription"}
)
# Actions that an Event may have; ADK refuses all others.
ACTIONS: Final = frozenset(
    {"stateDelta", "artifactDelta", "escalate", "requestedToolConfirmations", "compaction", "endOfAgent", "agentState"}
    | {"rewindBeforeInvocationId", "renderUiWidgets", "route"}
)
USAGE: Final = {
    "input_tokens": "promptTokenCount",
    "output_tokens": "candidatesTokenCount",
    "thinking_tokens": "thoughtsTokenCount",
    "cache_read_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
MAX_SECONDS: Final = 100_000_000_000  # ADK in Python and Go writes seconds, in JavaScript and Java milliseconds


def events(document: Fields) -> list[Fields]:
    """Return a thread's Events, oldest first."""
    events: list[Fields] = []
    for number, turn in enumerate(document["turns"]):
        run = str(turn.get("meta:run_id") or f"run-{number}")
        if turn.get("turn_type") == "user":
            events += _events_of_request(turn, run, f"{run}:user", turn.get("submitted_at"))
        for index, message in enumerate(turn.get("messages", ())):
            identity, at = f"{run}:{index}", message.get("timestamp")
            if message.get("message_type") == "request":
                events += _events_of_request(message, run, identity, at, _name(document, message))
            elif message.get("message_type") == "response":
                events += _events_of_response(message, run, identity, _name(document, message))
            else:
                _act(events, message)
    return events


def contents(document: Fields) -> list[Fields]:
    """Return a thread's contents, oldest first, as the Gemini API takes them: consecutive ones of a role are joined."""
    contents: list[Fields] = []
    for event in events(document):
        content = event.get("content")
        if content is None or not content["parts"]:
            continue
        if contents and contents[-1]["role"] == content["role"]:
            contents[-1]["parts"] += content["parts"]
        else:
            contents.append({"role": content["role"], "parts": list(content["parts"])})
    return contents


def _name(document: Fields, message: Fields) -> str:
    agent = document.get("agents", {}).get(message.get("agent_id")) or {}
    return str(agent.get("agent_name") or message.get("agent_id") or "model")


def _event(source: Fields, run: str, identity: str, at: Any, author: str, role: str, parts: list[Fields]) -> Fields:
    """Return an Event of these parts; one that came from ADK keeps its names."""
    fields = {"id": identity, "invocationId": run, "author": author, "timestamp": (epoch_ms(at) or 0) / 1000}
    meta = source.get(META)
    meta = {key: value for key, value in meta.items() if key in KEPT} if isinstance(meta, dict) else {}
    return {**fields, **meta, **({"content": {"role": role, "parts": parts}} if parts else {})}


def _events_of_request(source: Fields, run: str, identity: str, at: Any, author: str = USER) -> Iterator[Fields]:
    """Yield the events of a user turn or a request: results as the agent's event, prompts as the user's."""
    returns = [part for part in source.get("parts", ()) if _is_answer(part)]
    prompts = [piece for part in source.get("parts", ()) if not _is_answer(part) for piece in prompt_parts(part)]
    if returns:
        yield _event(source, run, identity, at, author, USER, [return_part(part) for part in returns])
    if prompts:
        said = source if not returns else {}
        event = _event(said, run, f"{identity}:words" if returns else identity, at, USER, USER, prompts)
        yield {**event, "author": USER}


def _is_answer(part: Fields) -> bool:
    return part.get("part_kind") in ANSWERS and bool(part.get("tool_call_id"))


def _events_of_response(message: Fields, run: str, identity: str, author: str) -> Iterator[Fields]:
    """Yield a response as one event, or as several: a result of a provider's tool separates them."""
    ours = META in message
    at, number = message.get("timestamp"), 0
    parts: list[Fields] = []
    for part in message.get("parts", ()):
        if part.get("part_kind") != "builtin-tool-return" or part.get("tool_name") == CODE:
            parts += part_of(part, is_own=ours)
            continue
        if parts:
            yield _event(message, run, f"{identity}.{number}", at, author, "model", parts)
        yield _event({}, run, f"{identity}.{number}:return", at, author, USER, [return_part(part)])
        parts, number = [], number + 1
    if parts or (ours and not number):  # a blocked call of the model has no content
        event = _event(message, run, f"{identity}.{number}" if number else identity, at, author, "model", parts)
        usage = call_fields(message)
        yield {**event, **usage}


def _act(events: list[Fields], message: Fields) -> None:
    """Add a system message of ADK's to the actions of the event that it came with."""
    kind, identity = str(message.get("event_type")), message.get(META)
    if not isinstance(identity, dict) or "id" not in identity:
        return
    data = message.get("event_data")
    if kind == "handoff" and isinstance(data, dict):
        action = {"transferToAgent": data.get("to")}
    elif kind.startswith(PREFIX) and kind.removeprefix(PREFIX) in ACTIONS:
        action = {kind.removeprefix(PREFIX): data}
    else:
        return
    if not events or events[-1].get("id") != identity["id"]:
        events.append({key: identity[key] for key in IDENTITY if key in identity})
    events[-1]["actions"] = {**events[-1].get("actions", {}), **action}


def part_of(part: Fields, *, is_own: bool) -> list[Fields]:
    """Return a part of a response; empty if ADK has no such part. `is_own`: it came from ADK."""
    kind = part.get("part_kind")
    signature = signature_of(part) if kind != "thinking" else part.get("signature") if is_own else None
    signed = {"thoughtSignature": signature} if signature is not None else {}
    if kind == "text":
        return [_restored({"text": part.get("content") or "", **signed}, part)]
    if kind == "thinking" and (part.get("content") or is_own):  # another provider's may be sealed
        return [_restored({"text": part.get("content") or "", "thought": True, **signed}, part)]
    if kind == "builtin-tool-call" and part.get("tool_name") == CODE and is_own:
        return [
            _restored({"executableCode": {"id": part.get("tool_call_id"), **_object(part.get("args"))}, **signed}, part)
        ]
    if kind in CALLS:
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name"), "args": _object(part.get("args"))}
        meta = part.get(META) or {}
        call |= {key: meta[key] for key in ("willContinue",) if key in meta}
        return [{"functionCall": call, **signed}]
    if kind == "builtin-tool-return":
        if not is_own:
            return [return_part(part)]
        result = {"id": part.get("tool_call_id"), **_object(part.get("content"))}
        return [_restored({"codeExecutionResult": result}, part)]
    if kind == "file":
        return [_restored(restored, part) for restored in _file(part.get("content"))]
    source = part.get("part")
    return [source] if kind == "custom:google-adk" and isinstance(source, dict) else []


def return_part(part: Fields) -> Fields:
    """Return a result. ADK's is an object: other values become its `result`, and failures its `error`."""
    content = part.get("content")
    failed = part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success"
    if not isinstance(content, dict) or content.keys() & {"kind", "url"}:
        content = {"error" if failed else "result": content}
    elif failed and not any(content.get(key) for key in ("error", "isError", "is_error")) and META not in part:
        content = {"error": content}
    answer = {"id": part.get("tool_call_id"), "name": part.get("tool_name") or "tool", "response": content}
    return {"functionResponse": answer}


def prompt_parts(part: Fields) -> list[Fields]:
    """Return the user's prompt, or a request to the model to retry, as parts."""
    if part.get("part_kind") not in ("user-prompt", "retry-prompt"):
        return []
    content = part.get("content")
    pieces = content if isinstance(content, list) else [content]
    return [fields for piece in pieces for fields in _parts_of_content(piece)]


def call_fields(message: Fields) -> Fields:
    """Return model and tokens of a response, as in its Event."""
    usage = message.get("usage") or {}
    counts = {name: usage[key] for key, name in USAGE.items() if usage.get(key) is not None}
    if "thoughtsTokenCount" in counts and "candidatesTokenCount" in counts:
        counts["candidatesTokenCount"] = max(0, counts["candidatesTokenCount"] - counts["thoughtsTokenCount"])
    fields: Fields = {"usageMetadata": counts} if counts else {}
    return fields | ({"modelVersion": message["model_name"]} if message.get("model_name") else {})


def _parts_of_content(piece: Any) -> list[Fields]:
    if isinstance(piece, str):
        return [{"text": piece}]
    if isinstance(piece, dict):
        if piece.get("kind") == "custom:google-adk" and isinstance(piece.get("part"), dict):
            return [piece["part"]]
        return _file(piece) or [{"text": json_text.dumps(piece)}]
    return [] if piece is None else [{"text": json_text.dumps(piece)}]


def _file(content: Any) -> list[Fields]:
    """Return a file by value or by address; empty if it is stored in another way."""
    if not isinstance(content, dict):
        return []
    media_type = content.get("media_type") or content.get("content_type") or "application/octet-stream"
    named = {"displayName": content["meta:filename"]} if content.get("meta:filename") else {}
    if isinstance(content.get("data"), str):
        return [{"inlineData": {"data": content["data"], "mimeType": media_type, **named}}]
    if isinstance(content.get("url"), str):
        return [{"fileData": {"fileUri": content["url"], "mimeType": media_type, **named}}]
    return []


def _restored(written: Fields, part: Fields) -> Fields:
    """Return the part with the fields that only ADK has."""
    return {**written, **(part.get(META) or {})}


def _object(value: Any) -> Fields:
    return value if isinstance(value, dict) else {} if value is None else {"value": value}


def _place_in_exchange(message: Fields) -> MessagePlace | None:
    """Return a position by which a session is cut before each user message that follows an agent's event.

    A result of the user begins no exchange.
    """
    event = read(_as_event(message))
    if event.author != USER:
        return MessagePlace.ANSWER if event.parts else None
    return MessagePlace.PROMPT if any("functionResponse" not in part for part in event.parts.values()) else None


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the whole events of a finished run."""
    builder.returns_by_call = False
    builder.scratch = Memory()
    for message in messages:
        event = read(_as_event(message))
        builder.at = max(builder.at, _at(event.fields) or 0)
        if not event.is_fragment:
            apply(builder, event)
    builder.last_at = max(builder.last_at, builder.at)
    return "complete" if builder.messages else None


def time(messages: Messages) -> int | None:
    """Return the first event's time."""
    return _at(spelled(messages[0]))


def _as_event(message: Fields) -> Fields:
    """Return the Event for a Content: its role `user` is the author, except for results of tools."""
    if "parts" not in message or "content" in message:
        return message
    parts = [spelled(part) for part in message["parts"] or ()]
    is_answer = bool(parts) and all("functionResponse" in part for part in parts)
    return {"author": USER if message.get("role") == USER and not is_answer else "", "content": message}


def _at(fields: Fields) -> int | None:
    stamp: Any = fields.get("timestamp")
    if not isinstance(stamp, int | float) or isinstance(stamp, bool) or not 0 < stamp < MAX_SECONDS * 1000:
        return None
    return int(stamp * 1000 if stamp < MAX_SECONDS else stamp)


READER: Final = Reader(partial(exchanges, place_of=_place_in_exchange), fill, time)
