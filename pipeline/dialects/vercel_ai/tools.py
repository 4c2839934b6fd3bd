"""Tool calls of a UI message stream: input, approval, output.

A result belongs to the newest call of its id, which may have been made in an earlier step, or in an earlier stream of
the same message. A result that comes before its call waits for it. `providerExecuted` calls stay in the response, as
builtin-tool-call and builtin-tool-return.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.pydantic_ai.keys import IMPLIED
from pipeline.dialects.pydantic_ai.messages import arguments
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.vercel_ai import from_pydantic_ai as pydantic
from pipeline.dialects.vercel_ai.keys import DENIED, META
from pipeline.dialects.vercel_ai.request import answer_earlier
from pipeline.dialects.vercel_ai.stream import (
    Early,
    Event,
    forget,
    googles_signature,
    note,
    noted,
    provider_fields,
    stream_of,
    text_of,
)
from pipeline.turns.text import join
from topics.json_text import Fields, object_of

OF_APPROVAL: Final = {
    "reason": "requestReason",
    "approvalDescriptor": "descriptor",
    "inputSchemaInput": "inputSchemaInput",
    "isAutomatic": "isAutomatic",
    "signature": "signature",
}
OF_CALL: Final = ("id", "provider_name", "provider_details", "tool_kind")


def tool_input_start(builder: Builder, event: Event) -> None:
    """Begin a call whose input comes as deltas; a second start of one id in a step restarts its input."""
    call_id, name = text_of(event, "toolCallId"), text_of(event, "toolName")
    part = builder.call_in_response(call_id)
    if part is None:
        parts = builder.current_response().parts
        stream_of(builder).overlapping |= any("args" in p.fields and not p.done for p in parts)
        part = builder.tool_start(call_id, name)
    else:
        _begin_again(builder, part)
        part.chunks.clear()
        part.done = False
        part.fields["tool_name"] = name
    _describe(part, event)
    note(part.fields, {"dynamic": event.get("dynamic") or None})


def tool_input_delta(builder: Builder, event: Event) -> None:
    """Append to the input's text; tool-input-available replaces it."""
    delta = text_of(event, "inputTextDelta")
    part = builder.calls[event["toolCallId"]][1]
    if not part.done:
        part.chunks.append(delta)


def tool_input_available(builder: Builder, event: Event) -> None:
    """Set the whole input, with or without a start before it."""
    part = _complete(builder, event)
    for key in ("inputError", "rawInput", "dynamic"):
        forget(part.fields, key)
    note(part.fields, {"dynamic": event.get("dynamic") or None})
    _describe(part, event)
    early = stream_of(builder).early.pop(event["toolCallId"], None)
    if early is not None:
        _answer(builder, early.event, early.fields)


def tool_input_error(builder: Builder, event: Event) -> None:
    """Add a call whose input the tool refused, and its validation_error."""
    error = text_of(event, "errorText")
    known = builder.call_in_response(text_of(event, "toolCallId"))
    accepted = known is not None and known.done
    part = _complete(builder, event)
    dynamic = event.get("dynamic") or None if known is None else None
    note(part.fields, {"inputError": None if accepted else True, "dynamic": dynamic})
    _describe(part, {**event, "providerMetadata": None, "title": None})
    _answer(builder, event, {"status": "validation_error", "content": error})


def tool_output_available(builder: Builder, event: Event) -> None:
    """Add a result. A preliminary one is kept for display until the final one comes."""
    call_id = text_of(event, "toolCallId")
    if not event.get("preliminary"):
        _answer(builder, event, {"status": "success", "content": event.get("output")})
    elif call_id in builder.calls and not _answers(*builder.calls[call_id]):
        note(builder.calls[call_id][1].fields, {"preliminary": [event.get("output")]})


def tool_output_error(builder: Builder, event: Event) -> None:
    """Add a tool's failure. After a tool-input-error, AI SDK 5 and 6 send the same failure again with this event."""
    error, call_id = text_of(event, "errorText"), text_of(event, "toolCallId")
    status = "error"
    if call_id in builder.calls:
        message, call = builder.calls[call_id]
        refused = any(answer.fields.get("status") == "validation_error" for answer in _answers(message, call))
        if refused or noted(call, "inputError"):
            status = "validation_error"
            note(call.fields, {"rawInput": noted(call, "inputError")})
    _answer(builder, event, {"status": status, "content": error})


def tool_output_denied(builder: Builder, event: Event) -> None:
    """Note that the user did not allow the call."""
    call_id = text_of(event, "toolCallId")
    if call_id in builder.calls:
        approval = noted(builder.calls[call_id][1], "approval")
    else:
        approval = stream_of(builder).earlier.get(call_id, {}).get("approval")
    reason = object_of(approval).get("reason")
    _answer(builder, event, {"status": "error", "outcome": "denied", "content": reason or DENIED})


def tool_approval_request(builder: Builder, event: Event) -> None:
    """Note that the call waits for the user's approval."""
    approval = {"id": text_of(event, "approvalId")}
    approval |= {OF_APPROVAL[key]: event[key] for key in OF_APPROVAL if event.get(key) not in (None, False)}
    call_id = text_of(event, "toolCallId")
    if call_id not in builder.calls:
        raise Violation(f"tool-approval-request: no call has the id {call_id!r:.80}")
    note(builder.calls[call_id][1].fields, {"approval": approval})


def tool_approval_response(builder: Builder, event: Event) -> None:
    """Note the answer to an approval request, by the approval's id; models get a denial as the call's result."""
    approval_id, approved = text_of(event, "approvalId"), event["approved"]
    for part in (part for message in builder.messages for part in message.parts):
        approval = noted(part, "approval")
        if approval is not None and approval["id"] == approval_id:
            reason = {"reason": event["reason"]} if event.get("reason") is not None else {}
            note(part.fields, {"approval": {**approval, "approved": approved, **reason}})
            _describe(part, {**event, "toolMetadata": None, "title": None})
            if approved is False:  # for an automatic denial, no tool-output-denied follows
                denied = {
                    "status": "error",
                    "outcome": "denied",
                    "content": event.get("reason") or DENIED,
                    IMPLIED: True,
                }
                _answer(builder, {"type": event["type"], "toolCallId": part.fields["tool_call_id"]}, denied)
            return
    raise Violation(f"tool-approval-response: no approval has the id {approval_id!r:.80}")


def settle(builder: Builder) -> None:
    """Settle a turn: complete calls that have a result but no whole input, and place results without a call."""
    stream = stream_of(builder)
    for message in builder.messages:
        for part in message.parts if message.kind == "response" else ():
            if not part.done and "args" in part.fields and _answers(message, part):
                _set_input(part, join(part.chunks) or None)
                part.done = True
    for call_id, early in stream.early.items():
        if early.opening:
            answer_earlier(builder, stream, call_id, early.fields)
        else:
            kept = {key: value for key, value in early.event.items() if key != "type"}
            builder.system(f"data-app-{early.event['type']}", kept)
    stream.early.clear()
    pydantic.settle(builder)


# ---- calls and their answers


def _complete(builder: Builder, event: Event) -> Part:
    """Return the call with its whole input."""
    call_id, name = text_of(event, "toolCallId"), text_of(event, "toolName")
    known = builder.call_in_response(call_id)
    if known is not None:
        _begin_again(builder, known)
    part = builder.tool_call(call_id, name, None, known.fields["part_kind"] if known is not None else "tool-call")
    stream_of(builder).whole.append(part)
    _set_input(part, event.get("input"))
    return part


def _begin_again(builder: Builder, call: Part) -> None:
    """Drop the result of a whole call that is made once more under the same id."""
    if call.done:
        message, _ = builder.calls[call.fields["tool_call_id"]]
        forget(call.fields, "preliminary")
        for answer in _answers(message, call):
            if answer in message.parts:
                answer.done = False  # it keeps its position: side messages count the parts before them
            elif message.request is not None:
                message.request.parts.remove(answer)


def _set_input(part: Part, given: Any) -> None:
    """Set the call's arguments as data; a null or a text from the wire is kept under META, too."""
    part.chunks.clear()
    part.fields["args"] = arguments(given)["args"]
    forget(part.fields, "input")
    if given is None or isinstance(given, str):
        note(part.fields, {"input": [given]})


def _describe(part: Part, event: Event) -> None:
    """Take over an event's fields about its call, other than input and output."""
    executed, metadata = event.get("providerExecuted"), event.get("providerMetadata")
    if isinstance(executed, bool):
        part.fields["part_kind"] = "builtin-tool-call" if executed else "tool-call"
        forget(part.fields, "providerExecuted")
        if not executed:
            note(part.fields, {"providerExecuted": False})
    title, tool = event.get("title"), event.get("toolMetadata")
    note(part.fields, {"title": title, "toolMetadata": tool, "callProviderMetadata": metadata})
    provider, signature = provider_fields(metadata), googles_signature(metadata)
    part.fields.update({key: provider[key] for key in OF_CALL if key in provider})
    if signature is not None:
        part.fields[SIGNATURE] = signature


def _answers(message: Message, call: Part) -> list[Part]:
    """Return the results of a call, in the response itself or in the request after it; empty without any."""
    call_id = call.fields["tool_call_id"]
    places = [message.parts, message.request.parts if message.request is not None else []]
    answers = (part for parts in places for part in parts if part.fields.get("tool_call_id") == call_id)
    return [part for part in answers if part.done and part is not call]


def _answer(builder: Builder, event: Event, fields: Fields) -> None:
    """Add a result to its call; the last of several counts."""
    call_id, stream = text_of(event, "toolCallId"), stream_of(builder)
    note(fields, {"providerMetadata": event.get("providerMetadata")})
    if call_id not in builder.calls:
        if call_id in stream.earlier:
            answer_earlier(builder, stream, call_id, fields)
        else:
            stream.early[call_id] = Early(event, fields, opening=builder.last_response() is None)
        return
    message, call = builder.calls[call_id]
    _describe(call, {key: event.get(key) for key in ("providerExecuted", "toolMetadata")})
    forget(call.fields, "preliminary")
    if META not in fields:
        for earlier in _answers(message, call):
            note(fields, {"providerMetadata": noted(earlier, "providerMetadata")})
    if call.fields["part_kind"] == "tool-call":
        builder.tool_return(call_id, **fields)
    else:
        _answer_in_response(message, call, fields)


def _answer_in_response(message: Message, call: Part, fields: Fields) -> None:
    """Put the result of a tool that the provider ran into the response itself."""
    names = ("tool_name", "tool_call_id", "provider_name")
    shared: Fields = {key: call.fields[key] for key in names if key in call.fields}
    answer: Fields = {"part_kind": "builtin-tool-return", **shared, **fields}
    if answer.pop("status") != "success":
        answer.setdefault("outcome", "failed")
    if known := _answers(message, call):
        known[0].fields = answer
    else:
        message.parts.append(Part(answer, done=True))
