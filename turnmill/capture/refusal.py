"""What the client of a stopped call, or of a stopped stream, gets, in the form of its wire. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

# No client retries after this status: Codex retries after all other 4xx, and OpenAI's SDKs after 408, 409 and 429.
STATUS: Final = 400
HEADERS: Final = {"content-type": "application/json", "x-should-retry": "false"}
CODE: Final = "run_stopped"
NAMED: Final = ("bedrock", "cohere", "mistral")  # wires whose clients read `message`
BESIDE: Final = {"gemini-interactions": {"event_type": "error"}, "mistral": {"type": "conversation.response.error"}}
ENDS: Final[dict[str, tuple[dict[str, Any], ...]]] = {  # the last events of a stream from a framework
    "vercel-ai": ({"type": "abort"},),
    "ag-ui": ({"type": "RUN_ERROR", "code": CODE},),
}


def whole(dialect: str, why: str) -> bytes:
    """Return the body of an answer with STATUS."""
    return _json(_error(dialect, why))


def at_end(dialect: str, why: str, headers: Mapping[str, str], newest: bytes) -> bytes | None:
    """Return a last event for an answer with these headers; None if it can't get one, and must be cut off.

    It can't if it is no stream of events, is encoded, or ends within an event. `newest`: its last bytes.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity")
    if kind != "text/event-stream" or encoding != "identity" or "content-length" in headers:
        return None
    if newest and not newest.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        return None
    error = _error(dialect, why)
    if dialect == "openai-responses":
        error = {"type": "error", "code": CODE, "message": why, "param": None, "sequence_number": 0, **error}
    name = b"event: error\n" if "type" in error else b""
    return name + b"data: " + _json(error) + b"\n\n"


def _error(dialect: str, why: str) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
    if dialect == "gemini":
        return {"error": {"code": STATUS, "message": why, "status": "CANCELLED"}}
    error = {"error": {"type": "invalid_request_error", "code": CODE, "message": why, "param": None}}
    return {**error, **BESIDE.get(dialect, {}), **({"message": why} if dialect in NAMED else {})}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def stopped_events(dialect: str, why: str) -> list[dict[str, Any]]:
    """Return the last events of a stream; none if the wire has no such event, and the stream just breaks off."""
    return [{**event, "message": why} if "code" in event else event for event in ENDS.get(dialect, ())]


def stopped_end(dialect: str, why: str) -> bytes:
    """Return the same as Server-Sent Events, with the marker by which the SDK ends a stream."""
    last = b"data: [DONE]\n\n" if dialect == "vercel-ai" else b""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in stopped_events(dialect, why)) + last
