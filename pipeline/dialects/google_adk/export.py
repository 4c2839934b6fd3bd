"""Thread document -> the events of an ADK session, as `append_event` takes them.

Turns that came from ADK are restored from `meta:adk`. In other threads, a provider's tool calls become calls with
results; signatures of other providers, and everything outside the conversation, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.google_adk.event import IDENTITY, USER
from pipeline.dialects.google_adk.export_parts import call_fields, part_of, prompt_parts, return_part
from pipeline.dialects.google_adk.facts import PREFIX
from pipeline.dialects.google_adk.parts import CODE, META
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields
from topics.part_kinds import ANSWERS

# Fields of a response's `meta:adk` that an Event has; keys added by others are not exported.
KEPT: Final = frozenset(
    {
        *IDENTITY,
        "finishReason",
        "errorCode",
        "errorMessage",
        "longRunningToolIds",
        "nodeInfo",
        "isolationScope",
        "output",
    }
    | {"avgLogprobs", "groundingMetadata", "citationMetadata", "cacheMetadata", "customMetadata", "interactionId"}
    | {"turnComplete", "interrupted", "inputTranscription", "outputTranscription"}
)
# Actions that an Event may have; ADK refuses all others.
ACTIONS: Final = frozenset(
    {"stateDelta", "artifactDelta", "escalate", "requestedToolConfirmations", "compaction", "endOfAgent", "agentState"}
    | {"rewindBeforeInvocationId", "renderUiWidgets", "route"}
)


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
