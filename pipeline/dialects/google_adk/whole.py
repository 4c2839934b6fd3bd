"""Conversion of whole events to messages, in order of arrival: output of agents, and results of their tools.

Facts beside the conversation become system messages: state, artifacts, transfers, errors, sources.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.google_adk.event import SILENT, USER, Event, Memory, finish_reason
from pipeline.dialects.google_adk.parts import META, camel, response_part, return_part, spelled, user_prompts
from pipeline.dialects.speakers import hand_off, speaker
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns import tokens
from topics import json_text
from topics.json_text import Fields, objects, present

READ_KEYS: Final = frozenset({"content", "partial", "actions", "usageMetadata", "modelVersion"})
AUTHOR_KEYS: Final = ("author", "branch")
PREFIX: Final = "custom:google-adk."
AUTH: Final = "requestedAuthConfigs"  # contains client secrets
IN_RETURN: Final = frozenset({"skipSummarization", "setModelResponse"})  # repeated in the return, or without content


def say(builder: Builder, event: Event) -> None:
    """Append the content of a whole event."""
    memory: Memory = builder.scratch
    rest = {index: part for index, part in event.parts.items() if "functionResponse" not in part}
    answers = [_answer(builder, event, part, index) for index, part in event.parts.items() if index not in rest]
    if event.author == USER:
        _ask(builder, event, user_prompts(rest.values()), answers)
        return
    if rest:
        parts = _response_parts(memory, event, rest)
        begun = memory.open.pop(event.voice, None)
        builder.open_text.pop(event.voice, None)
        if begun is not None:
            builder.messages.remove(begun.message)
        spoken = begun.message.first_part_at if begun is not None else None
        response = Message("response", builder.at, [Part(fields, done=True) for fields in parts], closed=True)
        response.fields = _response_fields(builder, event)
        response.first_part_at, response.last_at = builder.at if spoken is None else spoken, builder.at
        builder.messages.append(response)
        for part in response.parts:
            if part.fields["part_kind"] == "tool-call":
                builder.calls[part.fields["tool_call_id"]] = (response, part)
    if answers:
        memory.spent.pop(event.branch, None)
        for fields in answers:
            _put_return(builder, event, fields)


def forget_fragments(builder: Builder, event: Event) -> None:
    """Drop the fragments that a whole event without parts ends, by its id: nothing was said."""
    memory: Memory = builder.scratch
    begun = memory.open.get(event.voice)
    if begun is not None and event.id and begun.event_id == event.id:
        builder.messages.remove(begun.message)
        builder.open_text.pop(event.voice, None)
        del memory.open[event.voice]


def spend(builder: Builder, event: Event) -> None:
    """Add the tokens of a whole event to the newest response of its agent.

    Each event id counts once: a server may split an event in two. If an agent's calls come in several events
    (progressive streaming off), each repeats the same counts, which count once.
    """
    memory: Memory = builder.scratch
    spent = event.usage
    if spent is None or event.id in memory.counted:
        return
    if event.id:
        memory.counted.add(event.id)
    calls = ["functionCall" in part for part in event.parts.values()]
    is_call = bool(calls) and all(calls) and event.fields.get("partial") is None
    entry = (event.author, event.fields.get("invocationId"), spent)
    again = is_call and memory.spent.get(event.branch) == entry
    memory.spent[event.branch] = entry
    if again:
        return
    is_blocked = not event.parts and "errorCode" in event.fields  # a separate call of the model, without an answer
    newest = next((m for m in reversed(builder.messages) if m.kind == "response" and _is_of(m, event)), None)
    response = None if is_blocked else newest
    if response is None:
        response = Message("response", builder.at, fields=_response_fields(builder, event), closed=True)
        builder.messages.append(response)
    known = response.fields.get("usage")
    tier = {"service_tier": spent["service_tier"]} if "service_tier" in spent else {}
    response.fields["usage"] = spent if known is None else (tokens.total([known, spent]) or spent) | tier


def _is_of(message: Message, event: Event) -> bool:
    meta = message.fields.get(META)
    return message.closed and meta is not None and all(meta.get(key) == event.fields.get(key) for key in AUTHOR_KEYS)


def _response_parts(memory: Memory, event: Event, parts: dict[int, Fields]) -> list[Fields]:
    parted: list[Fields] = []
    for index, part in parts.items():
        made = response_part(part, _fallback_id(event, index), memory.code.get(event.voice))
        if made["part_kind"] == "builtin-tool-call":
            memory.code[event.voice] = made["tool_call_id"]
        parted.append(made)
    return parted


def _response_fields(builder: Builder, event: Event) -> Fields:
    known = {
        "model_name": text_or_none(event.fields.get("modelVersion")),
        "provider_response_id": text_or_none(event.fields.get("interactionId")),
        "finish_reason": finish_reason(event.fields),
    }
    return {"agent_id": speaker(builder, event.author), **present(known), META: _other_fields(event)}


def _other_fields(event: Event) -> Fields:
    """Return the other fields of an Event; empty lists and objects are left out."""
    rest = {key: value for key, value in event.fields.items() if key not in READ_KEYS}
    return {key: value for key, value in rest.items() if value not in ([], {})}


def _answer(builder: Builder, event: Event, part: Fields, index: int) -> Fields:
    answer = spelled(part["functionResponse"])
    call_id, name = answer.get("id"), answer.get("name", "") + ""
    if not isinstance(call_id, str) or not call_id:
        call_id = _open_call(builder, name) or _fallback_id(event, index)
    called = builder.calls.get(call_id)
    if called is None and builder.lossy:
        raise Violation(f"result of {call_id!r:.80}, whose call was lost")
    return return_part(part, call_id, name or (called[1].fields["tool_name"] if called is not None else ""))


def _open_call(builder: Builder, name: str) -> str | None:
    """Return the first unanswered call of this tool: very old recordings have no ids."""
    for call_id, (response, part) in builder.calls.items():
        answers = response.request.parts if response.request is not None else []
        if part.fields["tool_name"] == name and all(a.fields.get("tool_call_id") != call_id for a in answers):
            return call_id
    return None


def _ask(builder: Builder, event: Event, prompts: list[Fields], answers: list[Fields]) -> None:
    """Add the user's messages: at the beginning they are the user's turn, later a part of the request at this place."""
    for fields in answers:
        _put_return(builder, event, fields)
    if not prompts:
        return
    if any(message.kind != "system" for message in builder.messages):
        request = _request(builder, event)
        request.parts += [Part(fields, done=True) for fields in prompts]
    elif all(turn["parts"] != prompts for turn in builder.user_turns):
        builder.user_turn(prompts, at=None, **{META: event.identity})


def _put_return(builder: Builder, event: Event, fields: Fields) -> None:
    """Put a result into the request after its response: into a new request here, if there is none yet."""
    called = builder.calls.get(fields["tool_call_id"])
    response = called[0] if called is not None else None
    if response is None or (response.request is not None and response.request is not _newest(builder)):
        request = _request(builder, event)
    elif response.request is None:
        request = response.request = _new_request(builder, event)
    else:
        request = response.request
    request.parts.append(Part(fields, done=True))


def _request(builder: Builder, event: Event) -> Message:
    newest = _newest(builder)
    return newest if newest is not None and newest.kind == "request" else _new_request(builder, event)


def _new_request(builder: Builder, event: Event) -> Message:
    fields: Fields = {META: _other_fields(event)}
    if event.author != USER:
        fields["agent_id"] = speaker(builder, event.author)
    request = Message("request", builder.at, fields=fields, closed=True)
    builder.messages.append(request)
    return request


def _newest(builder: Builder) -> Message | None:
    """Return the newest message of the conversation, without unfinished ones of other agents."""
    return next((m for m in reversed(builder.messages) if m.kind != "system" and m.closed), None)


def _fallback_id(event: Event, index: int) -> str:
    """Return an id for a part without one: that of its event, and its index there."""
    return f"{event.id}:{index}"


def tell(builder: Builder, event: Event) -> None:
    """Add a system message for each new fact of a whole event."""
    memory: Memory = builder.scratch
    facts = [*_actions(event), *_sources(event), *_rest(event), *_error(event, memory)]
    if not facts or not memory.is_new(event.id, "facts", facts):
        return
    for event_type, data in facts:
        if event_type == "handoff":
            hand_off(builder, data["from"], data["to"], **{META: event.identity})
        else:
            builder.system(event_type, data, **{META: event.identity})


def fail(builder: Builder, line: Fields) -> None:
    """Fail the run by the server's last line, `{"error": …}`. ADK 2 has the reason in an earlier event."""
    memory: Memory = builder.scratch
    text = line["error"] if isinstance(line["error"], str) else json_text.dumps(line["error"])
    details = line.get("errorDetails")
    reason = details.get("error_message", details.get("errorMessage")) if isinstance(details, dict) else None
    if memory.error is None or reason != memory.error:
        builder.system("error", present({"message": text, "details": details}))
    builder.error_text = text
    builder.ended = "error"


def _actions(event: Event) -> Iterator[tuple[str, Any]]:
    for name, value in event.actions.items():
        if name == "transferToAgent" and isinstance(value, str):
            yield "handoff", {"from": event.author, "to": value}
        elif name == AUTH:
            yield PREFIX + name, {"tool_call_ids": sorted(value) if isinstance(value, dict) else []}
        elif name not in IN_RETURN:
            yield PREFIX + name, value


def _sources(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield the pages that a response is based on, or quotes."""
    for number, (url, title) in enumerate(pages(event.fields).items()):
        source = {"source_id": f"{event.id}:{number}", "url": url}
        yield "source.url", source if title is None else {**source, "title": title}


def pages(fields: Fields) -> dict[str, Any]:
    """Return the pages in `groundingMetadata` and `citationMetadata`: URL -> title, or None."""
    chunks = _objects_under(fields.get("groundingMetadata"), "groundingChunks")
    pages = [page for chunk in chunks for page in (chunk.get("web"), chunk.get("retrievedContext"))]
    urls: dict[str, Any] = {}
    for page in [*pages, *_objects_under(fields.get("citationMetadata"), "citations")]:
        if isinstance(page, dict) and isinstance(page.get("uri"), str):
            urls[page["uri"]] = urls.get(page["uri"]) or page.get("title")
    return urls


def _objects_under(holder: Any, name: str) -> list[Fields]:
    if not isinstance(holder, dict):
        return []
    return objects(next((value for key, value in holder.items() if camel(key) == name), None))


def _rest(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield the facts of an event without parts; with parts, the message contains them."""
    rest = {key: value for key, value in event.fields.items() if key not in SILENT and value not in ([], {})}
    if rest and not event.parts:
        yield f"{PREFIX}event", rest


def _error(event: Event, memory: Memory) -> Iterator[tuple[str, Any]]:
    """Yield an error. It doesn't end the run: the model may have been cut short, or may be called again."""
    code, text = event.fields.get("errorCode"), event.fields.get("errorMessage")
    if code is not None and not event.parts:
        memory.error = text_or_none(text)
        yield "error", present({"code": code, "message": text})
