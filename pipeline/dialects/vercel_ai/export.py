"""Thread document -> UI messages of the AI SDK, which `useChat` takes as initial messages.

A user turn becomes user messages, an agent turn one assistant message, each response in it a step. Turns that came over
the UI message stream are restored as in the SDK; those of other wires get the SDK's form where it has one.
"""

from itertools import takewhile
from typing import Any, Final

import orjson

from pipeline.dialects.exports import readable
from pipeline.dialects.pydantic_ai.keys import IMPLIED
from pipeline.dialects.signatures import signature_of
from pipeline.dialects.vercel_ai.keys import META
from topics.json_text import Fields, present
from topics.part_kinds import RESULTS

PLACE: Final = "meta:after_part"
ANSWER: Final = ("output", "errorText")
MEDIA_TYPES: Final = {"image-url": "image/*", "audio-url": "audio/*", "video-url": "video/*"}
OF_PYDANTIC: Final = ("id", "signature", "provider_name", "provider_details")
OF_CALL: Final = ("title", "toolMetadata", "callProviderMetadata", "approval")


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
        message |= present({"metadata": meta.get("metadata")})
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


def response_part(part: Fields) -> list[Fields]:
    """Return a part of a response, other than a call or a result, as UI parts."""
    kind, meta = part.get("part_kind", ""), part.get(META, {})
    if kind in ("text", "thinking"):
        name = "text" if kind == "text" else "reasoning"
        fields = {"type": name, "text": part.get("content") or "", "state": "done", **_provider(part)}
        return [{**fields, **{key: meta[key] for key in ("id", "citations") if key in meta}}]
    if kind == "file":
        return [{**file, "type": meta.get("type", "file"), **_provider(part)} for file in _file(part)]
    if kind.startswith("custom:"):
        return [{"type": "custom", "kind": kind.removeprefix("custom:"), **_provider(part)}]
    rest = {key: value for key, value in part.items() if key != "part_kind" and not key.startswith("meta:")}
    return [{"type": f"data-{kind}", "data": rest}]


def call_part(part: Fields) -> Fields:
    """Return a tool call without a result as its UI part."""
    meta = part.get(META, {})
    name = part.get("tool_name", "")
    fields: Fields = {"type": "dynamic-tool", "toolName": name} if meta.get("dynamic") else {"type": f"tool-{name}"}
    fields |= {"toolCallId": part["tool_call_id"], "state": "input-available"}
    # Without an input, the SDK refuses the message.
    given = meta["input"][0] if "input" in meta else part.get("args", {})
    fields["rawInput" if meta.get("rawInput") and not meta.get("dynamic") else "input"] = given
    fields |= {key: meta[key] for key in OF_CALL if key in meta}
    if "callProviderMetadata" not in fields and _provider(part):
        fields["callProviderMetadata"] = _provider(part)["providerMetadata"]
    if "callProviderMetadata" not in fields and (signature := signature_of(part)) is not None:
        fields["callProviderMetadata"] = {"google": {"thoughtSignature": signature}}
    if part["part_kind"] == "builtin-tool-call":
        fields["providerExecuted"] = True
    elif "providerExecuted" in meta:
        fields["providerExecuted"] = meta["providerExecuted"]
    if "approval" in fields:
        fields["state"] = "approval-responded" if "approved" in fields["approval"] else "approval-requested"
    if "preliminary" in meta:
        fields |= {"state": "output-available", "output": meta["preliminary"][0], "preliminary": True}
    return fields


def result_fields(part: Fields) -> Fields:
    """Return the fields that a tool-return, builtin-tool-return or retry-prompt adds to the UI part of its call."""
    metadata = part.get(META, {}).get("providerMetadata")
    fields: Fields = {} if metadata is None else {"resultProviderMetadata": metadata}
    outcome = part.get("outcome", "success")
    if outcome == "denied":
        return {**fields, "state": "output-denied"}
    if "content" not in part and "content_ref" in part:
        content: Any = {"content_ref": part["content_ref"]}
    else:
        content = part.get("content")
    failed = part["part_kind"] == "retry-prompt" or part.get("status", "success") != "success" or outcome != "success"
    if failed:
        text = content if isinstance(content, str) else orjson.dumps(content).decode()
        return {**fields, "state": "output-error", "errorText": text}
    return {**fields, "state": "output-available", "output": content}


def side_part(message: Fields) -> list[Fields]:
    """Return a system message as a source or data part; empty for errors and transient data."""
    kind, data, meta = message.get("event_type", ""), message.get("event_data"), message.get(META, {})
    if kind == "error" or meta.get("transient"):
        return []
    if kind in ("source.url", "source.document") and isinstance(data, dict):
        named = {
            "sourceId": "source_id",
            "url": "url",
            "title": "title",
            "mediaType": "media_type",
            "filename": "filename",
        }
        fields = {name: data[key] for name, key in named.items() if data.get(key) is not None}
        identity = {"sourceId": str(data.get("url") or data.get("title") or "source")}  # those of other wires have none
        return [{"type": kind.replace(".", "-"), **identity, **fields, **meta}]
    return [{"type": kind if kind.startswith("data-") else f"data-{kind}", "data": data, **meta}]


def user_parts(part: Fields) -> list[Fields]:
    """Return a part of a user turn as parts of a user message."""
    content, meta = part.get("content", ""), part.get(META, {})
    names = meta.get("filenames", {})
    parts: list[Fields] = []
    if part.get("part_kind") == "file":
        parts = _file(part)
    elif part.get("part_kind") in ("user-prompt", "text"):
        for index, item in enumerate(content if isinstance(content, list) else [content]):
            name = {"filename": names[str(index)]} if str(index) in names else {}
            parts.extend(ui_part | name for ui_part in _user_part(item))
    return [*parts, *meta.get("parts", [])]


def _user_part(item: Any) -> list[Fields]:
    if isinstance(item, str):
        return [{"type": "text", "text": item}]
    if not isinstance(item, dict):
        return []
    if item.get("kind") == "text-content" and isinstance(item.get("content"), str):
        return [{"type": "text", "text": item["content"]}]
    return _file({"content": item})


def _file(part: Fields) -> list[Fields]:
    """Return a file's content, by value or by address."""
    content, meta = part.get("content"), part.get(META, {})
    if not isinstance(content, dict):
        return []
    media_type = content.get("media_type") or content.get("content_type")
    media_type = media_type or MEDIA_TYPES.get(content.get("kind", ""), "application/octet-stream")
    if isinstance(content.get("data"), str):
        url = meta.get("url") or f"data:{media_type};base64,{content['data']}"
    elif isinstance(content.get("url"), str):
        url = content["url"]
    else:
        return []
    return [{"type": "file", "mediaType": media_type, "url": url}]


def _provider(part: Fields) -> Fields:
    """Return {"providerMetadata": …} as it came, or as Pydantic AI's adapter writes it for its parts; or {}."""
    if META in part or "part_kind" not in part:
        metadata = part.get(META, {}).get("providerMetadata")
        return {} if metadata is None else {"providerMetadata": metadata}
    named = {**part, "id": part.get("thinking_id", part.get("id"))}
    provider = {key: named[key] for key in OF_PYDANTIC if named.get(key) is not None}
    return {"providerMetadata": {"pydantic_ai": provider}} if provider else {}
