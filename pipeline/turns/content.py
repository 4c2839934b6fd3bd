"""Large values of a turn in the content store: selects them, replaces them by references, and restores them.

A tool's result (`tool-return`, `builtin-tool-return`) has `content_ref` instead of `content`. A file or a user's
attachment by value (`data`) becomes one by address (`url`), a form of ThreadProtocol's, with `content_ref` in addition.
ThreadProtocol has no place for a reference to anything else. So if a turn would still be too large, other fields of a
part, of a message or of the turn (arguments, texts, thoughts, data of events) become empty values of their type, and
`meta:refs` of the same object has a ContentRef for each, by the field's name.

A turn's canonical hash is that of the turn with all its values.
"""

import base64
import binascii
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from pipeline.turns.media_kinds import URL_KINDS, url_kind
from topics import json_text
from topics.json_text import Fields, list_of, object_of
from topics.part_kinds import RETURNS

JSON: Final = "application/json"
TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"
MAX_LEVELS: Final = 4  # of a value that are searched for a long text
MIN_BYTES: Final = 4096  # of the smallest value that is moved from a turn that would be too large otherwise
REFS: Final = "meta:refs"
STAYING: Final = frozenset(  # fields that readers need, or whose values are handled elsewhere
    {
        *("turn_type", "message_type", "part_kind", "event_type", "agent_id", "tool_name", "tool_call_id", "status"),
        *("started_at", "completed_at", "submitted_at", "timestamp", "completion_status", "interruption"),
        *("model_name", "provider_name", "usage", "total_usage", "messages", "parts", "content_ref", REFS),
        *("meta:turn_id", "meta:run_id", "meta:parent", "meta:partial", "meta:retracted", "meta:missing"),
    }
)

REF_BYTES: Final = 400  # approximate bytes of a reference in a record

Place = tuple[str | int, ...]  # path from the turn to the object that has the value, and gets the reference


class Form(StrEnum):
    """The encoding of a value as bytes."""

    TEXT = "text"
    JSON = "json"
    DECODED = "decoded"  # base64 text, kept as the bytes that it encodes
    BASE64 = "base64"  # base64 text in a form that an encoder would not write, kept as text


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that may be moved to the content store; `size`: bytes of its `data`.

    `field`: the name of its reference under REFS; None if the object has a place of its own for the reference.
    """

    path: Place
    value: Any
    form: Form
    size: int
    media_type: str
    field: str | None = None

    @property
    def data(self) -> bytes:
        """The bytes to store, encoded again at each access."""
        return _bytes(self.value, self.form)


def pieces(turn: Fields) -> Iterator[Piece]:
    """Yield the values of a ThreadProtocol turn with a place for their reference, and not moved yet."""
    for path, holder in _holders(turn):
        if "content_ref" in holder:
            continue
        if holder.get("part_kind") in RETURNS:
            if "content" in holder:
                yield _piece_of_value(path, holder["content"])
        elif isinstance(holder.get("data"), str) and holder.get("kind", "binary") == "binary":
            yield _binary(path, holder["data"], holder.get("media_type"))


def others(turn: Fields) -> Iterator[Piece]:
    """Yield the other values of a turn that may be moved, and are not yet: their references go under REFS."""
    for path, holder in _all(turn):
        for name, value in holder.items():
            kept = name in STAYING or (name == "content" and any(_of_part(path, holder)))
            if not kept and value and isinstance(value, str | dict | list):
                yield _piece_of_value(path, value, name)


def large(turn: Fields, size: int, threshold: int, most: int) -> list[Piece]:
    """Return the pieces to move: those of at least `threshold` bytes, and more while the record is over `most`.

    The additional ones are the next largest; after all of them, the largest of `others`. `size`: of the record.
    """
    chosen: list[Piece] = []
    for some, least in ((pieces, threshold), (others, sys.maxsize)):
        for piece in sorted(some(turn), key=lambda piece: -piece.size):
            if piece.size < least and (size <= most or piece.size < MIN_BYTES):
                break
            chosen.append(piece)
            size -= piece.size - REF_BYTES  # it takes at least as much space in the record
        if size <= most:
            break
    return chosen


def has_long_text(turn: Fields, least: int) -> bool:
    """Return True if a value with a place for its reference has a text of at least `least` characters.

    Then it has at least as many bytes. The check encodes nothing.
    """
    return any(
        _is_long(holder.get("content" if holder.get("part_kind") in RETURNS else "data"), least, MAX_LEVELS)
        for _, holder in _holders(turn)
    )


def _is_long(value: Any, least: int, levels: int) -> bool:
    if isinstance(value, str):
        return len(value) >= least
    if levels and isinstance(value, dict | list):
        return any(_is_long(item, least, levels - 1) for item in (value.values() if isinstance(value, dict) else value))
    return False


def moved(turn: Fields, refs: Iterable[tuple[Piece, Fields]]) -> Fields:
    """Return a copy of the turn with each piece replaced by its ContentRef."""
    for piece, ref in refs:
        turn = _changed(turn, piece.path, partial(_referring, piece=piece, ref=ref))
    return turn


def references(turn: Fields) -> list[tuple[Place, Fields]]:
    """Return the ContentRefs of a turn with their paths; a path under REFS ends with REFS and the field's name."""
    values = [(path, holder.get("content_ref")) for path, holder in _holders(turn)]
    named = [
        ((*path, REFS, name), ref)
        for path, holder in _all(turn)
        if isinstance(holder.get(REFS), dict)
        for name, ref in holder[REFS].items()
    ]
    return [(path, ref) for path, ref in (*values, *named) if isinstance(ref, dict)]


def resolved(turn: Fields, contents: Mapping[Place, bytes]) -> Fields:
    """Return the turn with the values of these places restored. Raises ValueError for malformed JSON or text."""
    for path, data in contents.items():
        if path[-2:-1] == (REFS,):
            turn = _changed(turn, path[:-2], partial(_with_field, name=str(path[-1]), data=data))
        else:
            turn = _changed(turn, path, partial(_restored, data=data))
    return turn


def _holders(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    for path, part in _parts(turn):
        yield from _of_part(path, part)


def _of_part(path: Place, part: Fields) -> Iterator[tuple[Place, Fields]]:
    kind, content = part.get("part_kind"), part.get("content")
    if kind in RETURNS or (kind == "file" and "content_ref" in part):
        yield path, part
    elif kind == "file" and isinstance(content, dict):
        yield (*path, "content"), content
    elif kind == "user-prompt" and isinstance(content, list):
        for number, item in enumerate(content):
            if isinstance(item, dict) and (item.get("kind") == "binary" or "content_ref" in item):
                yield (*path, "content", number), item


def _all(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    """Yield the turn, its messages and their parts."""
    yield from _owners(turn)
    yield from _parts(turn)


def _parts(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    for path, owner in _owners(turn):
        for number, part in enumerate(list_of(owner.get("parts"))):
            if isinstance(part, dict):
                yield (*path, "parts", number), part


def _owners(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    owners: list[tuple[Place, Any]] = [((), turn), *_messages(turn, ())]
    for beside in ("meta:partial", "meta:retracted"):
        held = turn.get(beside)
        owners += _messages(held, (beside,)) if isinstance(held, dict) else ()
    return ((path, owner) for path, owner in owners if isinstance(owner, dict))


def _messages(holder: Fields, path: Place) -> Iterator[tuple[Place, Any]]:
    for number, message in enumerate(list_of(holder.get("messages"))):
        yield (*path, "messages", number), message


def _piece_of_value(path: Place, value: Any, field: str | None = None) -> Piece:
    if isinstance(value, str):
        try:
            size = len(value) if value.isascii() else len(value.encode())
            return Piece(path, value, Form.TEXT, size, TEXT, field)
        except UnicodeEncodeError:  # a lone surrogate, which JSON allows
            pass
    return Piece(path, value, Form.JSON, len(_bytes(value, Form.JSON)), JSON, field)


def _binary(path: Place, data: str, media_type: Any) -> Piece:
    kind = media_type if isinstance(media_type, str) else BINARY
    try:
        raw = base64.b64decode(data, validate=True)
        if base64.b64encode(raw).decode() == data:
            return Piece(path, data, Form.DECODED, len(raw), kind)
    except (binascii.Error, ValueError):
        pass
    return Piece(path, data, Form.BASE64, len(_bytes(data, Form.BASE64)), kind)


def _bytes(value: Any, form: Form) -> bytes:
    if form is Form.JSON:
        return json_text.dumps(value).encode()
    if form is Form.DECODED:
        return base64.b64decode(value)
    return str(value).encode("utf-8", "surrogatepass")


def _referring(holder: Fields, piece: Piece, ref: Fields) -> Fields:
    if piece.field is not None:
        empty: Any = type(piece.value)()
        return {**holder, piece.field: empty, REFS: {**holder.get(REFS, {}), piece.field: ref}}
    if holder.get("part_kind") in RETURNS:
        return _replaced(holder, "content", "content_ref", ref)
    address: Fields = {"url": ref["uri"]} if "url" not in holder else {}
    if holder.get("kind") == "binary":
        address["kind"] = url_kind(piece.media_type)
    mark = {"content_encoding": "base64"} if piece.form is Form.BASE64 else {}
    return {**{key: value for key, value in holder.items() if key != "data"}, **address, "content_ref": {**ref, **mark}}


def _with_field(holder: Fields, name: str, data: bytes) -> Fields:
    ref = holder[REFS][name]
    refs = {key: value for key, value in holder[REFS].items() if key != name}
    known = {**holder, name: _content(data, ref.get("media_type"))}
    return {**known, REFS: refs} if refs else {key: value for key, value in known.items() if key != REFS}


def _restored(holder: Fields, data: bytes) -> Fields:
    ref = holder["content_ref"]
    media_type = ref.get("media_type")
    if holder.get("part_kind") in RETURNS:
        return _replaced(holder, "content_ref", "content", _content(data, media_type))
    if ref.get("content_encoding") == "base64":
        text = data.decode("utf-8", "surrogatepass")
    else:
        text = base64.b64encode(data).decode()
    rest = {key: value for key, value in holder.items() if key != "content_ref"}
    if holder.get("part_kind") == "file":  # the whole content was moved
        binary = object_of(rest.get("content"))
        return {**rest, "content": {"kind": "binary", "media_type": media_type or BINARY, **binary, "data": text}}
    if rest.get("url") == ref.get("uri"):
        del rest["url"]
    if rest.get("kind") in URL_KINDS:
        rest["kind"] = "binary"
    return {**rest, "data": text}


def _replaced(holder: Fields, old: str, new: str, value: Any) -> Fields:
    """Return the object with `old` replaced by the key `new` with this value."""
    return {(new if key == old else key): (value if key == old else held) for key, held in holder.items() if key != new}


def _content(data: bytes, media_type: Any) -> Any:
    kind = media_type.partition(";")[0].strip().lower() if isinstance(media_type, str) else TEXT
    if kind == JSON or kind.endswith("+json"):
        return json_text.loads(data.decode())
    if kind.startswith("text/"):
        return data.decode()
    return {"kind": "binary", "media_type": media_type, "data": base64.b64encode(data).decode()}


def _changed(value: Any, path: Place, change: Callable[[Fields], Fields]) -> Any:
    """Return a copy, down to the path, with the value there changed."""
    if not path:
        return change(value)
    copy: Any = value.copy()
    copy[path[0]] = _changed(value[path[0]], path[1:], change)
    return copy
