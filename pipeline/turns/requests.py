"""Requests to models: their bodies without the messages, each under its hash. Pure.

While a run is built, a response has its request's body under REQUEST; in a record, it has {"sha256": HEX} there, and
the record has the bodies: {HEX: BODY}. The hash is SHA-256 over RFC 8785 JSON of the stored, redacted body.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pipeline.turns.canonical import jcs
from pipeline.turns.text import mended
from topics.json_text import Fields, list_of, object_of, objects
from topics.turn_record import TurnRecord
from turnmill.capture.fitting import CONFIGURING
from turnmill.capture.secrets import masked_settings
from turnmill.wire.nesting import with_room

REQUEST: Final = "meta:request"
REQUESTS: Final = "meta:requests"  # of a document: the bodies that its turns refer to
MESSAGES: Final = frozenset({"messages", "input", "contents"})
PROMPT: Final = ("system", "instructions", "systemInstruction", "messages", "tools", "functions")
CHAT: Final = "openai-chat"  # its system prompt is among the messages


def without_messages(body: Any, dialect: str, before: Fields | None = None) -> Fields | None:
    """Return a request's body, which may be any JSON, without its messages; None if it has nothing else.

    Members equal to those of `before`, the previous request, are the same objects, so a run keeps them once.
    """
    if not isinstance(body, dict):
        return None
    rest: Fields = {key: value for key, value in body.items() if key not in MESSAGES}
    inner = rest.get("request")
    if isinstance(inner, dict):  # Code Assist wraps the body
        rest["request"] = {key: value for key, value in inner.items() if key not in MESSAGES}
    if dialect == CHAT and (leading := list(_leading(body.get("messages")))):
        rest["messages"] = leading
    if before:
        rest = {key: before[key] if before.get(key) == value else value for key, value in rest.items()}
    return rest or None


def _leading(messages: Any) -> Iterator[Any]:
    for message in list_of(messages):
        if not isinstance(message, dict) or message.get("role") not in CONFIGURING:
            return
        yield message


def digest(body: Fields) -> str:
    """Return the hash of a body, hex SHA-256."""
    return hashlib.sha256(jcs(body)).hexdigest()


def prompt_of(body: Any) -> str | None:
    """Return the hash of system prompt and tools in a body, hex SHA-256; None without either."""
    if not isinstance(body, dict):
        return None
    inner = body.get("request")
    places = [body, inner] if isinstance(inner, dict) else [body]
    prompt = {name: holder[name] for holder in places for name in PROMPT if holder.get(name)}
    return _sealed(prompt)[0] if prompt else None


def request_of(message: Mapping[str, Any]) -> str | None:
    """Return the hash of the request that a message answers, None if it names none."""
    name = object_of(message.get(REQUEST)).get("sha256")
    return name if isinstance(name, str) else None


def named(turn: Fields) -> list[str]:
    """Return the hashes of the requests that a turn refers to, each once; the turn may be any JSON object."""
    return list(dict.fromkeys(name for message in _asking_messages(turn) if (name := request_of(message)) is not None))


def with_bodies(document: Fields, bodies: Mapping[str, Fields]) -> Fields:
    """Return a thread's document with the bodies of the requests that its turns refer to, under REQUESTS."""
    names = named_in(document)
    return {**document, REQUESTS: {name: bodies[name] for name in names if name in bodies}}


def named_in(document: Fields) -> list[str]:
    """Return the hashes of the requests that a thread's turns refer to, each once."""
    return list(dict.fromkeys(name for turn in document["turns"] for name in named(turn)))


def set_apart(record: TurnRecord) -> TurnRecord:
    """Move the request bodies of a new record's responses into its `requests`, with masked credentials."""
    bodies: Fields = {}
    for message in _asking_messages(record["turn"] or {}):
        name, body = _sealed(masked_settings(CHAT, message[REQUEST])[0])
        bodies[name] = body
        message[REQUEST] = {"sha256": name}
    if bodies:
        record["requests"] = bodies
    return record


def changed(record: TurnRecord, change: Callable[[Any], Any]) -> TurnRecord:
    """Return the record with its requests' bodies changed, under their new hashes; the same one if none changes."""
    bodies, turn = record.get("requests"), record["turn"]
    if not bodies or turn is None:
        return record
    new = {name: change(body) for name, body in bodies.items()}
    if all(new[name] is bodies[name] for name in bodies):
        return record
    sealed = {name: _sealed(body) for name, body in new.items()}
    messages = [
        {**message, REQUEST: {"sha256": sealed[message[REQUEST]["sha256"]][0]}} if REQUEST in message else message
        for message in turn["messages"]
    ]
    return {**record, "turn": {**turn, "messages": messages}, "requests": dict(sealed.values())}


def without_bodies(record: TurnRecord) -> TurnRecord:
    """Return a record without the bodies of its requests."""
    rest: TurnRecord = {**record}
    rest.pop("requests", None)
    return rest


def _sealed(body: Fields) -> tuple[str, Fields]:
    """Return a body and its hash; text and numbers that UTF-8 JSON can't represent are replaced first."""
    try:
        return digest(body), body
    except (TypeError, ValueError, RecursionError):
        body = with_room(lambda: mended(body))
        return with_room(lambda: digest(body)), body


def _asking_messages(turn: Fields) -> Iterable[Fields]:
    return (message for message in objects(turn.get("messages")) if isinstance(message.get(REQUEST), dict))
