"""Thread document -> UI messages of the AI SDK, which `useChat` takes as initial messages.

A user turn becomes user messages, an agent turn one assistant message, each response in it a step. Turns that came over
the UI message stream are restored as in the SDK; those of other wires get the SDK's form where it has one.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final

from pipeline.dialects.javascript_numbers import readable
from pipeline.dialects.pydantic_ai.keys import IMPLIED
from pipeline.dialects.vercel_ai.export_parts import call_part, response_part, result_fields, side_part, user_parts
from pipeline.dialects.vercel_ai.keys import META
from topics.json_text import Fields
from topics.part_kinds import RESULTS

PLACE: Final = "meta:after_part"
ANSWER: Final = ("output", "errorText")


def messages(document: Fields) -> list[Fields]:
    """Return [{"id", "role": "user" / "assistant", "metadata"?, "parts"}]. Messages without parts are left out."""
    out: list[Fields] = []
    calls: dict[str, Fields] = {}  # the newest UI part of each tool call
    for turn in document.get("turns", ()):
        if turn.get("turn_type") == "user":
            out.extend(_user_messages(turn))
        else:
            _add_turn(out, turn, calls)
    return [readable(message) for message in out if message["parts"]]


def _message(role: str, message_id: Any, metadata: Any) -> Fields:
    message = {"id": str(message_id), "role": role, "parts": []}
    return message if metadata is None else {**message, "metadata": metadata}


def _user_messages(turn: Fields) -> list[Fields]:
    """Return one message for each prompt, with the SDK's id if the thread has it."""
    messages: list[Fields] = []
    for number, part in enumerate(turn.get("parts", ())):
        meta = part.get(META, {})
        fallback = f"{turn.get('meta:turn_id', 'user')}{f'-{number}' if number else ''}"
        message = _message("user", meta.get("id") or fallback, meta.get("metadata"))
        message["parts"] = user_parts(part)
        messages.append(message)
    return messages


def _add_turn(out: list[Fields], turn: Fields, calls: dict[str, Fields]) -> None:
    meta = turn.get(META, {})
    message_id = meta.get("id") or turn.get("meta:turn_id") or f"message-{len(out)}"
    if out and out[-1]["role"] == "assistant" and out[-1]["id"] == str(message_id):
        message = out[-1]  # one message over several streams
        if meta.get("metadata") is not None:
            message["metadata"] = meta["metadata"]
    else:
        message = _message("assistant", message_id, meta.get("metadata"))
        out.append(message)
    items = turn.get("messages", [])
    for index, item in enumerate(items):
        kind = item.get("message_type")
        if kind == "response":
            behind = takewhile(lambda later: later.get("message_type") != "response", items[index + 1 :])
            sides = [later for later in behind if PLACE in later]
            _add_response(message["parts"], item, sides, calls)
        elif kind == "system" and PLACE not in item:
            message["parts"].extend(side_part(item))
        elif kind == "request":
            message = _add_request(out, message, item, calls)
    if not message["parts"] and "metadata" in message:
        message["parts"].append({"type": "step-start"})  # `messages` leaves out a message without parts


def _add_response(parts: list[Fields], response: Fields, sides: list[Fields], calls: dict[str, Fields]) -> None:
    """Add a step: the response's parts, and between them the side parts that came there."""
    if response.get(META, {}).get("step", True):
        parts.append({"type": "step-start"})
    own_parts = response.get("parts", [])
    for index in range(len(own_parts) + 1):
        for side in sides:
            if min(side[PLACE], len(own_parts)) == index:
                parts.extend(side_part(side))
        if index == len(own_parts):
            break
        part = own_parts[index]
        kind = part.get("part_kind", "")
        if kind in RESULTS:
            _answer(parts, part, calls)
        elif kind.endswith("tool-call"):
            calls[part["tool_call_id"]] = call_part(part)
            parts.append(calls[part["tool_call_id"]])
        else:
            parts.extend(response_part(part))


def _add_request(out: list[Fields], message: Fields, request: Fields, calls: dict[str, Fields]) -> Fields:
    """Add results to their calls; a prompt becomes a message or a steering part. Return the open message."""
    for part in request.get("parts", ()):
        if part.get("part_kind") in RESULTS:
            _answer(message["parts"], part, calls)
        elif part.get("part_kind") == "user-prompt":
            meta = part.get(META, {})
            if meta.get("enqueued"):
                continue
            if "steering" in meta:
                message["parts"].append({"type": "steering-message", "id": meta.get("id"), "parts": meta["steering"]})
            else:
                from_user = _message("user", f"{message['id']}-user-{len(out)}", None)
                from_user["parts"] = user_parts(part)
                message = _message("assistant", f"{message['id']}-{len(out)}", None)
                out.extend((from_user, message))
    return message


def _answer(parts: list[Fields], result: Fields, calls: dict[str, Fields]) -> None:
    call_id = result.get("tool_call_id")
    if not isinstance(call_id, str) or IMPLIED in result:
        return  # never sent to clients: a retry prompt that answers no tool, and an implied result
    call = calls.get(call_id)
    if call is None:  # made in an earlier run that the thread doesn't contain
        call = dict(result.get(META, {}).get("call", {}))
        if not call:
            return
        calls[call_id] = call
        parts.append(call)
    for key in ANSWER:  # an earlier result of the call may have set one; the SDK refuses a part with both
        call.pop(key, None)
    call.update(result_fields(result))
    if call["state"] == "output-denied" and "approval" not in call:  # without it, the SDK refuses the message
        reason = result.get("content")
        call["approval"] = {"id": call_id, "approved": False, **({"reason": reason} if isinstance(reason, str) else {})}
