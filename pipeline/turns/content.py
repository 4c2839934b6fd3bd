"""Large values of a turn that are kept elsewhere: which they are, what stands in their place, and back again.

A tool's result (`tool-return`, `builtin-tool-return`) has `content_ref` instead of `content`. A file or a user's
attachment by value (`data`) becomes one by address (`url`), as ThreadProtocol has it, and `content_ref` beside it says
what is there. Nothing else of a turn may be kept elsewhere. A turn's canonical hash is that of the turn with all in it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pipeline.turns.media_kinds import URL_KINDS, url_kind
from topics import json_text
from topics.json_text import Fields

RETURNS: Final = frozenset({"tool-return", "builtin-tool-return"})
JSON: Final = "application/json"
TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"
LEAST: Final = 4096  # bytes of the smallest value that goes, where a turn would be too large otherwise

Place = tuple[str | int, ...]  # from the turn to the object that has the value, and gets the `content_ref`


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that may be kept elsewhere. `encoded`: `data` is base64 text that is not what an encoder would write."""

    place: Place
    data: bytes
    media_type: str
    encoded: bool = False


def pieces(turn: Fields) -> Iterator[Piece]:
    """Every value of a ThreadProtocol turn that may be kept elsewhere, and isn't yet."""
    for place, holder in _holders(turn):
        if "content_ref" in holder:
            continue
        if holder.get("part_kind") in RETURNS:
            if "content" in holder:
                yield _result(place, holder["content"])
        elif isinstance(holder.get("data"), str) and holder.get("kind", "binary") == "binary":
            yield _binary(place, holder["data"], holder.get("media_type"))


def large(turn: Fields, size: int, threshold: int, most: int) -> list[Piece]:
    """Pieces of at least `threshold` bytes, and the next largest while a record of `size` bytes is over `most`."""
    chosen = []
    for piece in sorted(pieces(turn), key=lambda piece: -len(piece.data)):
        if len(piece.data) < threshold and (size <= most or len(piece.data) < LEAST):
            break
        chosen.append(piece)
        size -= len(piece.data)  # in the record it takes that at least
    return chosen


def moved(turn: Fields, refs: Iterable[tuple[Piece, Fields]]) -> Fields:
    """The turn with each piece's ContentRef in its place; the turn given stays as it is."""
    for piece, ref in refs:
        turn = _changed(turn, piece.place, partial(_referring, piece=piece, ref=ref))
    return turn


def references(turn: Fields) -> list[tuple[Place, Fields]]:
    """Every ContentRef of a turn and its place."""
    return [
        (place, holder["content_ref"])
        for place, holder in _holders(turn)
        if isinstance(holder.get("content_ref"), dict)
    ]


def resolved(turn: Fields, contents: Mapping[Place, bytes]) -> Fields:
    """The turn with the values at these places in it again. Raises ValueError where JSON or text is none."""
    for place, data in contents.items():
        turn = _changed(turn, place, partial(_restored, data=data))
    return turn


def _holders(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    for place, part in _parts(turn):
        kind, content = part.get("part_kind"), part.get("content")
        if kind in RETURNS or (kind == "file" and "content_ref" in part):
            yield place, part
        elif kind == "file" and isinstance(content, dict):
            yield (*place, "content"), content
        elif kind == "user-prompt" and isinstance(content, list):
            for number, item in enumerate(content):
                if isinstance(item, dict) and (item.get("kind") == "binary" or "content_ref" in item):
                    yield (*place, "content", number), item


def _parts(turn: Fields) -> Iterator[tuple[Place, Fields]]:
    shown = turn.get("meta:partial")
    owners: list[tuple[Place, Any]] = [((), turn), *_messages(turn, ())]
    owners += _messages(shown, ("meta:partial",)) if isinstance(shown, dict) else ()
    for place, owner in owners:
        parts = owner.get("parts") if isinstance(owner, dict) else None
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict):
                yield (*place, "parts", number), part


def _messages(holder: Fields, place: Place) -> Iterator[tuple[Place, Any]]:
    messages = holder.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        yield (*place, "messages", number), message


def _result(place: Place, content: Any) -> Piece:
    if isinstance(content, str):
        try:
            return Piece(place, content.encode(), TEXT)
        except UnicodeEncodeError:  # half a character: JSON can hold that
            pass
    return Piece(place, json_text.dumps(content).encode(), JSON)


def _binary(place: Place, data: str, media_type: Any) -> Piece:
    kind = media_type if isinstance(media_type, str) else BINARY
    try:
        raw = base64.b64decode(data, validate=True)
        if base64.b64encode(raw).decode() == data:
            return Piece(place, raw, kind)
    except (binascii.Error, ValueError):
        pass
    return Piece(place, data.encode("utf-8", "surrogatepass"), kind, encoded=True)


def _referring(holder: Fields, piece: Piece, ref: Fields) -> Fields:
    if holder.get("part_kind") in RETURNS:
        return _replaced(holder, "content", "content_ref", ref)
    address: Fields = {"url": ref["uri"]} if "url" not in holder else {}
    if holder.get("kind") == "binary":
        address["kind"] = url_kind(piece.media_type)
    mark = {"content_encoding": "base64"} if piece.encoded else {}
    return {**{key: value for key, value in holder.items() if key != "data"}, **address, "content_ref": {**ref, **mark}}


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
    if holder.get("part_kind") == "file":  # the whole content was kept elsewhere
        content = rest.get("content")
        binary = content if isinstance(content, dict) else {}
        return {**rest, "content": {"kind": "binary", "media_type": media_type or BINARY, **binary, "data": text}}
    if rest.get("url") == ref.get("uri"):
        del rest["url"]
    if rest.get("kind") in URL_KINDS:
        rest["kind"] = "binary"
    return {**rest, "data": text}


def _replaced(holder: Fields, old: str, new: str, value: Any) -> Fields:
    """`new` with this value where `old` was."""
    return {(new if key == old else key): (value if key == old else held) for key, held in holder.items() if key != new}


def _content(data: bytes, media_type: Any) -> Any:
    kind = media_type.partition(";")[0].strip().lower() if isinstance(media_type, str) else TEXT
    if kind == JSON or kind.endswith("+json"):
        return json_text.loads(data.decode())
    if kind.startswith("text/"):
        return data.decode()
    return {"kind": "binary", "media_type": media_type, "data": base64.b64encode(data).decode()}


def _changed(value: Any, place: Place, change: Callable[[Fields], Fields]) -> Any:
    """A copy, as deep as the place lies, with what stands there changed."""
    if not place:
        return change(value)
    copy: Any = value.copy()
    copy[place[0]] = _changed(value[place[0]], place[1:], change)
    return copy
