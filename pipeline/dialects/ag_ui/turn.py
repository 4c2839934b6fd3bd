"""Conversion of an AG-UI run's flat list to the responses and requests of its turn.

Adjacent messages of the assistant and thoughts are one response, up to the next result or message of the user. Inside
one message the text comes before its calls, as in AG-UI's client.
"""

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part, awaiting
from pipeline.dialects import ends
from pipeline.dialects.ag_ui.messages import prompt_part
from pipeline.dialects.ag_ui.stream import Item, Stream, note, verdict
from pipeline.dialects.ag_ui.text import close
from pipeline.dialects.wire_values import object_in, text_or_none
from topics.json_text import Fields, present


def write(builder: Builder, stream: Stream, end: str) -> None:
    """Append the run's messages to the builder's turn. If it is complete, open parts are closed."""
    for name, subagent in stream.subagents.items():
        _tell(stream, name, subagent)
    for item in stream.items:
        if item.event is not None:
            if builder.response is not None:
                item.event.fields["meta:after_part"] = len(builder.response.parts)
            builder.messages.append(item.event)
        elif item.role in ("assistant", "reasoning"):
            _speak(builder, item, complete=end == "complete")
        elif item.role == "tool":
            _answer(builder, stream, item)
        elif item.role == "user":
            _request(builder, item).parts.append(Part(prompt_part(item), done=True))
        else:  # system, developer
            data = {"id": item.id, "role": item.role, "content": item.says()}
            fields = {"event_type": "custom:ag-ui.message", "event_data": data}
            builder.messages.append(Message("system", item.at, fields=fields, closed=True))
    if builder.response is not None:
        builder.response.closed = end == "complete"
        builder.response = None


def _speak(builder: Builder, item: Item, *, complete: bool) -> None:
    """Add a message or a thought to the current response, or to a new one. An empty one is left out."""
    parts = [part for part in item.texts if part.chunks or part.fields["content"]] + item.calls
    if not parts and item.usage is None and not _thinks(item):
        return
    response = builder.response
    if response is None:
        response = Message("response", item.at, first_part_at=item.at)
        builder.messages.append(response)
        builder.response = response
    response.last_at = max(response.last_at or item.last_at, item.last_at)
    if item.usage is not None:
        response.fields["usage"] = item.usage
    ends.tell(response.fields, ends.CHAT, item.ended)
    if not parts and _thinks(item):
        parts = [Part({"part_kind": "thinking", "content": ""}, done=True)]
    for part in parts:
        if complete and not part.done:
            close(part)
        if "args" in part.fields:
            note(part.fields, {"parent": item.id})
        else:
            _sign(part, item)
        response.parts.append(part)


def _thinks(item: Item) -> bool:
    """Return True for a thought, also an unreadable one: it still has to be sent back to its provider."""
    return item.role == "reasoning" and item.attrs.get("encryptedValue") is not None


def _sign(part: Part, item: Item) -> None:
    encrypted = item.attrs.get("encryptedValue")
    note(part.fields, {"id": item.id, "name": item.attrs.get("name"), "encryptedValue": encrypted})
    if item.role == "reasoning" and isinstance(encrypted, str):
        claimed = object_in(encrypted)
        signature, provider = claimed.get("signature", encrypted), claimed.get("provider_name")
        part.fields |= present({"signature": text_or_none(signature), "provider_name": text_or_none(provider)})


def _answer(builder: Builder, stream: Stream, item: Item) -> None:
    """Add a result to the request after its call; of a tool that the provider ran, to the response itself."""
    call_id = item.attrs["toolCallId"]
    _, call = stream.calls.get(call_id, (None, None))
    answer: Fields = {
        "part_kind": "tool-return",
        "tool_name": call.fields["tool_name"] if call is not None else stream.earlier.get(call_id, ""),
        "tool_call_id": call_id,
        **verdict(item.attrs),
        "content": item.attrs["content"],
    }
    if answer["content"] == "" and isinstance(item.attrs.get("error"), str):
        note(answer, {"error": item.attrs["error"]})
    note(answer, {"id": item.id or None} | {key: item.attrs.get(key) for key in ("fields", "encryptedValue")})
    if call is None or call.fields["part_kind"] == "tool-call":
        request = _request(builder, item)
        same = [part for part in request.parts if part.fields.get("tool_call_id") == call_id]
        response = builder.last_response()
        twin = awaiting(response, request, call_id) if response is not None else None
        if twin is not None:
            request.parts.append(Part({**answer, "tool_name": twin.fields["tool_name"]}, done=True))
        elif same:
            same[-1].fields = answer
        else:
            request.parts.append(Part(answer, done=True))
    elif builder.response is not None:
        identity: Fields = {key: call.fields[key] for key in ("tool_call_id", "provider_name") if key in call.fields}
        failed = answer.pop("status") != "success"
        outcome: Fields = {"outcome": answer.get("outcome", "failed")} if failed else {}
        fields: Fields = {**answer, "part_kind": "builtin-tool-return", **identity, **outcome}
        builder.response.parts.append(Part(fields, done=True))
        builder.response.last_at = max(builder.response.last_at or item.at, item.at)


def _request(builder: Builder, item: Item) -> Message:
    """Return the request after the newest response, which it ends, or else the one that opens the turn."""
    response = builder.last_response()
    if response is None:
        request = next((message for message in builder.messages if message.kind == "request"), None)
    else:
        request = response.request
        response.closed = True
    builder.response = None
    if request is None:
        request = Message("request", item.at, closed=True)
        builder.messages.append(request)
        if response is not None:
            response.request = request
    request.at = max(request.at, item.at)
    return request


def _tell(stream: Stream, name: str, subagent: Stream) -> None:
    """Keep a sub-agent's messages in the event of its start, outside the conversation."""
    told = next((item for item in stream.items if item.attrs.get("subagent") == name), None)
    if told is not None and told.event is not None:
        messages = [message for message in map(plain, subagent.items) if message is not None]
        told.event.fields["event_data"] = {**told.event.fields["event_data"], "messages": messages}


def plain(item: Item) -> Fields | None:
    """Return an entry of the flat list as a message of AG-UI; None if it is an event."""
    if item.event is not None:
        return None
    message: Fields = {"id": item.id, "role": item.role, **item.attrs}
    if item.role != "tool" and "content" not in message:
        message["content"] = item.says()
    calls: list[Any] = [_plain_call(part) for part in item.calls]
    return {**message, "toolCalls": calls} if calls else message


def _plain_call(part: Part) -> Fields:
    function = {"name": part.fields["tool_name"], "arguments": "".join(part.chunks)}
    return {"id": part.fields["tool_call_id"], "type": "function", "function": function}
