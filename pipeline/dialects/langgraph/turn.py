"""Conversion of the messages of a LangGraph run to the responses and requests of its turn."""

import re
from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part, awaiting
from pipeline.dialects import ends
from pipeline.dialects.langgraph.parts import META, content, response_parts
from pipeline.dialects.langgraph.stream import OF_TOOLS, Entry, Stream, made_by_program
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.tokens import STANDARD
from topics.json_text import Fields, filled, object_of, objects, present

REPEATED: Final = re.compile(r"(.+?)\1+")
LIFETIMES: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
TIERS: Final = ("flex", "priority")
KNOWN: Final = frozenset(  # fields of LangChain's messages; `chunk` is ours
    {"type", "role", "chunk", "content", "id", "name", "tool_calls", "invalid_tool_calls", "tool_call_chunks"}
    | {"usage_metadata", "response_metadata", "additional_kwargs", "chunk_position", "example"}
    | {"tool_call_id", "status", "artifact"}
)


def write(builder: Builder, stream: Stream, end: str) -> None:
    """Append the run's messages to the builder's turn: those of the state, if one came, else the streamed ones."""
    complete = end == "complete"
    _set_apart(builder, stream)
    if complete and stream.based and not stream.updated and not stream.heard:
        _take_for_new(stream)
    if stream.updated:
        new = [entry for entry in stream.state if _is_new(entry)]
        chosen = [(entry, True) for entry in (new if stream.valued else _in_order(new))]
        unsettled = () if complete else stream.heard
        chosen += [(entry, False) for entry in unsettled if _is_new(entry) and not entry.confirmed]
    else:
        entries = [entry for entry in stream.heard if _is_new(entry)]
        root = _in_order([entry for entry in entries if not entry.namespace] or entries)
        chosen = [(entry, not entry.broken and (complete or entry.whole or entry is not entries[-1])) for entry in root]
    prompts = [prompt_part(entry.message) for entry in _newest_prompts(stream)]
    for entry, whole in chosen:
        message, kind = entry.settle(), entry.message.get("type")
        if kind == "ai" and not (complete and not whole):
            told = entry.streamed or stream.valued or not stream.heard
            _respond(builder, entry, message, whole=whole, billed=told)
        elif kind == "tool" and whole:
            _answer(builder, entry, message)
        elif kind == "human" and _is_made(entry):
            builder.messages.append(notification(message, entry.at))
        elif kind == "human" and whole and builder.last_response() is None:
            prompts.append(prompt_part(entry.message))
        elif kind == "human" and whole:
            builder.at, at = max(builder.at, entry.at), builder.at
            builder.request_after(None).parts.append(Part(prompt_part(entry.message), done=True))
            builder.at = at
    if prompts and not builder.user_turns:
        builder.user_turn(prompts)
    if stream.rest:
        stream.beside.append(_system(builder.at, "custom:langgraph.state", stream.rest))
    for beside in sorted([*stream.beside, *_children(stream)], key=lambda message: message.at):
        later = (n for n, other in enumerate(builder.messages) if other.at > beside.at)
        builder.messages.insert(next(later, len(builder.messages)), beside)


def _set_apart(builder: Builder, stream: Stream) -> None:
    """Add the calls that the stream hides, and whose messages are not in the state, beside the answer."""
    if not stream.hidden:
        return
    ids = {entry.message.get("id") for entry in stream.state}
    heard, stream.heard = stream.heard, []
    for entry in heard:
        purpose = next((stream.hidden[name] for name in entry.ids if name in stream.hidden), None)
        if purpose is None or entry.confirmed or entry.ids & ids:
            stream.heard.append(entry)
            continue
        builder.bill(purpose, response_fields(entry.settle()))


def _take_for_new(stream: Stream) -> None:
    """Treat a single state as new, since the run has nothing else: it counted as the state from before the run."""
    asked = [n for n, entry in enumerate(stream.state) if entry.message.get("type") == "human"]
    for entry in stream.state[asked[-1] + 1 if asked else 0 :]:
        entry.old, stream.updated, stream.valued = False, True, True


def _newest_prompts(stream: Stream) -> list[Entry]:
    """Return the user's messages after the last answer in the state from before the run."""
    old = [entry for entry in stream.state if entry.old and entry.message.get("type") in ("ai", "tool", "human")]
    spoken = [n for n, entry in enumerate(old) if entry.message["type"] != "human"]
    return [entry for entry in (old[spoken[-1] + 1 :] if spoken else old) if not _is_made(entry)]


def _in_order(entries: list[Entry]) -> list[Entry]:
    """Return the entries sorted: parallel tasks write when they are done, but the state has them in task order."""
    ordered = list(entries)
    start = 0
    while start < len(ordered):
        end = start + 1
        rank = ordered[start].rank
        while end < len(ordered) and rank and (other := ordered[end].rank) and other[0] == rank[0]:
            end += 1
        ordered[start:end] = sorted(ordered[start:end], key=lambda entry: entry.rank or (0, 0))
        start = end
    return ordered


def _is_made(entry: Entry) -> bool:
    """Return True for a message that a program wrote in the user's name."""
    return entry.made or made_by_program(entry.message)


def _is_new(entry: Entry) -> bool:
    """Return True for a message of this run; those of an agent inside a tool are the tool's."""
    if entry.old or (entry.repeated and entry.message.get("type") != "human"):
        return False
    return not (entry.namespace and entry.namespace[0].startswith(OF_TOOLS))


def _respond(builder: Builder, entry: Entry, message: Fields, *, whole: bool, billed: bool) -> None:
    parts = [Part(fields, done=whole) for fields in response_parts(message)]
    fields = response_fields(message)
    if not billed:
        fields.pop("usage", None)
    elif "usage" not in fields and entry.usage is not None:
        fields["usage"] = entry.usage
    if not parts and "usage" not in fields:
        return
    response = Message("response", entry.at, parts, fields, closed=whole, last_at=entry.last_at)
    response.first_part_at = entry.first_at
    builder.messages.append(response)
    for sourced in _sources(parts):
        builder.messages.append(_system(entry.last_at, "source.url", sourced))


def response_fields(message: Fields) -> Fields:
    """Return tokens, model and stop reason."""
    metadata = object_of(message.get("response_metadata"))
    reason = next((metadata[key] for key in ("finish_reason", "stop_reason", "status") if metadata.get(key)), None)
    fields = {
        "model_name": metadata.get("model_name", metadata.get("model")),
        "provider_name": metadata.get("model_provider"),
        "provider_response_id": metadata.get("id"),
        "finish_reason": None if reason is None else ends.finish(ends.LANGCHAIN, _once(str(reason).lower()[:100])),
    }
    fields = {key: value for key, value in fields.items() if isinstance(value, str)}
    if fields.get("finish_reason") == "stop" and (message.get("tool_calls") or message.get("invalid_tool_calls")):
        fields["finish_reason"] = "tool_call"
    if isinstance(message.get("usage_metadata"), dict):
        fields["usage"] = _usage(message["usage_metadata"], metadata.get("service_tier"))
    said = {"finish_reason": reason} if fields.get("finish_reason") == "error" else {}
    return {**fields, **_other_fields({**message, **said})}


def _once(reason: str) -> str:
    """Return a word that came once, or again with each chunk: langchain-core adds texts up (`merge_dicts`)."""
    repeated = None if reason in ends.LANGCHAIN else REPEATED.fullmatch(reason)
    return reason if repeated is None else repeated[1]


def _usage(usage: Fields, tier: Any) -> Fields:
    """Return tokens with those written to the cache, which langchain-anthropic tells by their lifetimes alone.

    langchain-openai puts a service tier before the names of the counts in it.
    """
    known = dict(usage)
    details = object_of(usage.get("input_token_details"))
    written = [count for key in LIFETIMES if isinstance(count := details.get(key), int)]
    if any(written) and not details.get("cache_creation"):
        known["cache_write_tokens"] = sum(written)
    for name in TIERS:
        if details.get(name) is not None:
            tier, told = name, usage.get("output_token_details")
            known["cache_read_tokens"] = details.get(f"{name}_cache_read")
            known["cache_write_tokens"] = details.get(f"{name}_cache_creation")
            known["thinking_tokens"] = object_of(told).get(f"{name}_reasoning")
    if isinstance(tier, str) and tier not in STANDARD:
        known["service_tier"] = tier
    return known


def _answer(builder: Builder, entry: Entry, message: Fields) -> None:
    """Put a tool's result into the request after the newest response that has its call."""
    call_id = str(message.get("tool_call_id") or "")
    responses = (message for message in reversed(builder.messages) if message.kind == "response")
    response = next((r for r in responses if any(p.fields.get("tool_call_id") == call_id for p in r.parts)), None)
    part = tool_return(message)
    request = _request(builder, response, entry.at)
    twin = awaiting(response, request, call_id) if response is not None else None
    if response is not None:
        call = twin or next(part for part in response.parts if part.fields.get("tool_call_id") == call_id)
        part["tool_name"] = part["tool_name"] or call.fields["tool_name"]
    if twin is None:
        request.parts[:] = [other for other in request.parts if other.fields.get("tool_call_id") != call_id]
    request.parts.append(Part(part, done=True))


def _request(builder: Builder, response: Message | None, at: int) -> Message:
    if response is None and builder.last_response() is None:  # it answers a call of an earlier run
        opening = next((message for message in builder.messages if message.kind == "request"), None)
        if opening is None:
            opening = Message("request", at, closed=True)
            builder.messages.append(opening)
        return opening
    builder.at, before = at, builder.at
    request = builder.request_after(response)
    builder.at = before
    return request


def tool_return(message: Fields) -> Fields:
    """Return a ToolMessage as tool-return part; old ones have no status."""
    part: Fields = {
        "part_kind": "tool-return",
        "tool_name": text_or_empty(message.get("name")),
        "tool_call_id": str(message.get("tool_call_id") or ""),
        "status": "error" if message.get("status") == "error" else "success",
        "content": message.get("content"),
        **present({"metadata": message.get("artifact")}),
    }
    return {**part, **_other_fields({key: value for key, value in message.items() if key != "name"})}


def notification(message: Fields, at: int) -> Message:
    """Return the system message for words that a program wrote in the user's name, such as a summary."""
    told = object_of(message.get("additional_kwargs"))
    about = {"id": message.get("id"), "source": told.get("lc_source"), "data": told.get("lc_data")}
    return _system(at, "custom:langgraph.notification", {**present(about), "content": content(message.get("content"))})


def prompt_part(message: Fields) -> Fields:
    """Return a HumanMessage as user-prompt part."""
    return {"part_kind": "user-prompt", "content": content(message.get("content")), **_other_fields(message)}


def _other_fields(message: Fields) -> Fields:
    """Return a message's fields other than its content: id and name, and under `fields` the unknown ones."""
    kept: Fields = {key: message[key] for key in ("id", "name") if isinstance(message.get(key), str)}
    rest = {key: value for key, value in message.items() if key not in KNOWN and value not in (None, "", [], {})}
    return filled({META: kept | filled({"fields": rest})})


def _sources(parts: list[Part]) -> Iterator[Fields]:
    """Yield citations of texts that have an address, each once."""
    urls: set[str] = set()
    for part in parts:
        for cited in objects((part.fields.get(META) or {}).get("annotations")):
            url = cited.get("url")
            if isinstance(url, str) and url not in urls:
                urls.add(url)
                title = {"title": cited["title"]} if isinstance(cited.get("title"), str) else {}
                yield {"url": url, **title}


def _children(stream: Stream) -> Iterator[Message]:
    """Yield messages of agents whose output never reaches the root's state: one system message for each namespace."""
    ids = {entry.message.get("id") for entry in stream.state}
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in stream.heard:
        if entry.namespace and stream.updated and entry.whole and not entry.ids & ids:
            groups.setdefault(entry.namespace, []).append(entry)
    for namespace, entries in groups.items():
        names = (entry.message.get("name") for entry in entries if entry.message.get("type") == "ai")
        name = next((name for name in names if isinstance(name, str)), namespace[-1].partition(":")[0])
        messages = [{k: v for k, v in entry.settle().items() if k != "chunk" and v} for entry in entries]
        data = {"name": name, "namespace": list(namespace), "messages": messages}
        yield _system(entries[0].at, "custom:langgraph.subagent", data)


def _system(at: int, event_type: str, data: Any) -> Message:
    return Message("system", at, fields={"event_type": event_type, "event_data": data}, closed=True)
