"""Values of any wire, read with care: texts, numbers, objects, identifiers of content, ends of streams. Pure."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.assembly.dialect import StreamEnd
from topics import json_text
from topics.json_text import Fields, objects
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads


def text_or_none(value: Any) -> str | None:
    """Return a text as it is, None for any other value."""
    return value if isinstance(value, str) else None


def text_or_empty(value: Any) -> str:
    """Return a text as it is, "" for any other value."""
    return value if isinstance(value, str) else ""


def number_or_none(value: Any) -> int | None:
    """Return a whole number as it is, None for any other value; JSON's true and false are no numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_number(value: Any) -> bool:
    """Return True for a number; JSON's true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts_of(pieces: Any) -> str:
    """Return the texts of pieces of content, joined; of any JSON."""
    return "".join(text_or_empty(piece.get("text")) for piece in objects(pieces))


def text_or_json(value: Any) -> str:
    """Return a text as it is, "" for None, and the JSON text of any other value."""
    return value if isinstance(value, str) else "" if value is None else json_text.dumps(value)


def text_or_dumped(value: Any) -> str:
    """Return a text as it is, and the JSON text of any other value, also of None."""
    return value if isinstance(value, str) else json_text.dumps(value)


def call_arguments(value: Any) -> Any:
    """Return arguments of a call as data; null as an empty object, and a text if it could not be parsed."""
    return {} if value is None else {"INVALID_JSON": value} if isinstance(value, str) else value


def object_in(text: Any) -> Fields:
    """Return the object that a JSON text contains; {} for anything else."""
    if not isinstance(text, str) or not text.startswith("{"):
        return {}
    try:
        value = loads(text.encode("utf-8", "surrogatepass"))
    except InvalidRecord:
        return {}
    return value if isinstance(value, dict) else {}


def line_of(event: Any) -> Any:
    """Return the event that a recorder of both sides has under `line`, and any other as it is."""
    match event:
        case {"from": str(), "line": str(text)}:
            return object_in(text)
        case {"from": str(), "line": dict(line)}:
            return line
    return event


def identifier(content: str | bytes) -> str:
    """Return the identifier of content, as Pydantic AI computes it: the first six digits of its SHA-1."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:6]


def identifier_of_base64(data: str) -> str:
    """Return the identifier of the bytes that are given in base64; of the text itself if it is not base64."""
    try:
        return identifier(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return identifier(data)


def ends_by(kind_key: str, ends: Mapping[str, StreamEnd | None]) -> Callable[[Any, StreamEnd | None], StreamEnd | None]:
    """Return a wire's `ended`: by the event's kind, the end of the stream, or None where it opens again."""

    def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
        kind = event.get(kind_key) if isinstance(event, dict) else None
        return ends.get(kind, before) if isinstance(kind, str) else before

    return ended


def tell_names(fields: Fields, source: Fields, names: Mapping[str, str]) -> None:
    """Set fields by their names in a response: those that are texts, and not empty."""
    fields |= {name: source[key] for key, name in names.items() if isinstance(source.get(key), str) and source[key]}


def note_under(meta: str, fields: Fields, extra: Fields) -> None:
    """Keep fields of a wire beyond ThreadProtocol: those that are not None, beside those that are there already.

    They are beside a part, message or turn, under the wire's `meta:*` key.
    """
    values = {key: value for key, value in extra.items() if value is not None}
    if values:
        known = fields.get(meta)
        fields[meta] = {**known, **values} if known else values


def counted(before: Any, now: Fields) -> Fields:
    """Return two reports of the same counts as the later; where it has none, or a zero, the earlier count stays."""
    if not isinstance(before, dict):
        return now
    later = {key: value for key, value in now.items() if not (before.get(key) and (value is None or value == 0))}
    return before | {
        key: counted(before.get(key), value) if isinstance(value, dict) else value for key, value in later.items()
    }
