"""OpenAI's Realtime API (dialect `openai-realtime`): the kin of Responses. Events of the server; the client's, too.

| event | what it does |
|---|---|
| session.created, session.updated | the instructions, tools and model of the calls that follow |
| conversation.item.added, .created, .done of the user, or of a tool's output | is asked by the next response |
| conversation.item.input_audio_transcription.completed | what the user has said in audio |
| response.created | begins a response to all of them; it continues the response before |
| response.output_text.*, response.output_audio_transcript.* | text |
| response.output_item.*, response.function_call_arguments.* | as those of Responses |
| response.done | the call ended as its status says: cancelled and failed interrupt the run |
| error | SystemMessage `error`: the session goes on |
| audio, rate limits, buffers, the model's items in the conversation, the client's events | nothing |
| turnmill.request, turnmill.error | as those of Responses |
| any other | SystemMessage data-app-TYPE; a line `{"from", "line"}` of a recorder is its line |

The words of a user's audio are transcribed beside the answer: those that come behind its beginning are asked by the
next response.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.kin import CANCELLED, kin
from pipeline.dialects.model_calls import REQUEST
from pipeline.dialects.openai_responses import DIALECT as OF
from pipeline.dialects.wire_values import line_of
from topics.json_text import Fields, objects

KNOWN: Final = (
    "session.",
    "conversation.",
    "input_audio_buffer.",
    "output_audio_buffer.",
    "response.",
    "rate_limits.",
)
TRANSCRIPT: Final = "conversation.item.input_audio_transcription."
SILENT: Final = ("input_audio_buffer.", "output_audio_buffer.", "rate_limits.", "response.output_audio.", TRANSCRIPT)
# The client's events: the server repeats the items, and answers the others.
ASKING: Final = frozenset({"session.update", "conversation.item.create", "response.create", "response.cancel"})
NAMES: Final = {"input_token_details": "input_tokens_details", "output_token_details": "output_tokens_details"}
KINDS: Final = {
    "text": "output_text",
    "audio": "output_text",
    "output_audio": "output_text",
    "input_audio": "input_text",
}
BETA: Final = re.compile(r"^response\.(text|audio|audio_transcript)\.")  # as Azure and the API's first version say it
ITEM_KINDS: Final = ("conversation.item.added", "conversation.item.created", "conversation.item.done")


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield the events of Responses of an event."""
    items: dict[str, Fields] = state.setdefault("items", {})
    event = line_of(event)
    kind = BETA.sub(r"response.output_\1.", event["type"])
    event = {**event, "type": kind}
    if kind in ("session.created", "session.updated"):
        state["session"] = event["session"]
    elif kind in ITEM_KINDS:
        item = event["item"]
        if item.get("role") in ("user", "system") or item.get("type") == "function_call_output":
            items[item["id"]] = _item(item)
    elif kind == f"{TRANSCRIPT}completed":
        items.setdefault(event["item_id"], {"role": "user"})["content"] = [
            {"type": "input_text", "text": event["transcript"]}
        ]
    elif kind == "response.created":
        yield {"type": REQUEST, "request": _request(state, items)}
        yield {**event, "response": _response(event["response"], state)}
    elif kind == "response.done":
        yield from _done(state, event["response"])
    elif kind == "error":
        yield {"type": "data-app-error", "error": event.get("error")}
    elif kind.startswith("response.output_audio_transcript."):
        told = {**event, "text": event["transcript"]} if "transcript" in event else event
        yield {**told, "type": kind.replace("output_audio_transcript", "output_text")}
    elif "item" in event and kind.startswith("response."):
        yield {**event, "item": _item(event["item"])}
    elif "part" in event:
        yield {**event, "part": _part(event["part"])}
    elif not (kind.startswith((*SILENT, "conversation.item.")) or kind in ASKING):
        yield event


def _request(state: Fields, items: dict[str, Fields]) -> Fields:
    """Return the body of the call that begins: the items that users and tools have added since the last call."""
    told = state.get("told", frozenset())
    asked = [item for key, item in items.items() if key not in told]
    state["told"] = told | items.keys()
    session = state.get("session") or {}
    named = {key: session[key] for key in ("model", "instructions", "tools") if session.get(key)}
    before = {"previous_response_id": state["before"]} if state.get("before") else {}
    return {**named, **before, "input": asked}


def _response(response: Fields, state: Fields) -> Fields:
    usage = response.get("usage")
    counts = {NAMES.get(key, key): value for key, value in usage.items()} if isinstance(usage, dict) else None
    model = response.get("model") or (state.get("session") or {}).get("model")
    kept: Fields = {key: response[key] for key in ("id", "status", "conversation_id") if key in response}
    return {
        **kept,
        "model": model,
        "output": [_item(item) for item in objects(response.get("output"))],
        "usage": counts,
    }


def _done(state: Fields, response: Fields) -> Iterator[Fields]:
    details = response.get("status_details") or {}
    state["before"] = response.get("id")
    status = response.get("status")
    told = _response(response, state)
    if status == "completed":
        yield {"type": "response.completed", "response": told}
    elif status in ("incomplete", "cancelled"):
        yield {"type": "response.incomplete", "response": {**told, "incomplete_details": details}}
        if status == "cancelled":
            yield {"type": CANCELLED}
    else:
        error = details.get("error") or {"type": status, "message": details.get("reason") or status}
        yield {"type": "response.failed", "response": {**told, "error": error}}


def _item(item: Fields) -> Fields:
    content = [_part(part) for part in objects(item.get("content"))]
    return {**item, "content": content} if content else item


def _part(part: Fields) -> Fields:
    kind = KINDS.get(str(part.get("type")))
    if kind is None:
        return part
    text = part.get("text") if part.get("text") is not None else part.get("transcript")
    return {"type": kind, "text": text or ""}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: all of the server's have an `event_id`."""
    match line_of(event):
        case {"type": str(kind), "event_id": str()}:
            return kind.startswith(KNOWN) or kind == "error"
        case {"type": "session.update", "session": {}} | {"type": "conversation.item.create", "item": {}}:
            return True
        case {"type": "response.create" | "response.cancel"}:
            return True
    return False


DIALECT: Final = kin("openai-realtime", OF, translate, lambda request: request, recognises, provider="openai")
