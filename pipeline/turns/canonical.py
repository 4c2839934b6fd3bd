"""The canonical hash: SHA-256 over RFC 8785 (JCS) JSON of a turn's content.

Left out: `meta:*` keys, `data-sys-*` messages, responses beside the answer, usage, and times (set by the receiver, or
missing on the wire).
Inside tool arguments, results and event data nothing is left out.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

import orjson
import rfc8785

from pipeline.turns.asides import is_aside
from pipeline.turns.text import mended
from topics.json_text import Fields
from topics.turn_record import TurnRecord
from turnmill.wire.nesting import with_room

SKIPPED: Final = frozenset(
    {"usage", "total_usage", "timestamp", "started_at", "completed_at", "submitted_at", "interrupted_at", "dynamic_ref"}
)
MAX_EXACT: Final = 2**53
MIN_PLAIN_FLOAT: Final = 1e-4  # smaller floats have an exponent, which JavaScript writes differently
MIN_SPLIT: Final = 32  # messages of a turn, or parts of a message


def turn_hash(turn: Fields) -> str:
    """Return the hash of a ThreadProtocol turn, hex SHA-256."""
    fields = essence(turn)
    if _is_short(fields):
        return hashlib.sha256(jcs(fields)).hexdigest()
    digest = hashlib.sha256()
    _add(fields, digest.update, 4)
    return digest.hexdigest()


def _is_short(fields: Fields) -> bool:
    messages = fields.get("messages") or ()
    if len(messages) >= MIN_SPLIT:
        return False
    for message in messages:  # a generator would cost more than the loop
        parts = message.get("parts")
        if parts and len(parts) >= MIN_SPLIT:
            return False
    return True


def _add(value: Any, add: Callable[[bytes], object], levels: int) -> None:
    """Pass the JCS of a value to `add`, member by member, so that a large turn is never in memory as text."""
    if levels and value.__class__ is list:
        for number, item in enumerate(value):
            add(b"," if number else b"[")
            _add(item, add, levels - 1)
        add(b"]" if value else b"[]")
    elif levels and value.__class__ is dict and all(map(str.isascii, value)):
        for number, key in enumerate(sorted(value)):
            add((b"," if number else b"{") + jcs(key) + b":")
            _add(value[key], add, levels - 1)
        add(b"}" if value else b"{}")
    else:
        add(jcs(value))


def essence(turn: Fields) -> Fields:
    """Return the turn with only the hashed fields."""
    kept = _with_parts(turn)
    if kept.get("interruption") is not None:
        kept["interruption"] = _kept(kept["interruption"])
    if kept.get("messages") is not None:
        kept["messages"] = [
            _with_parts(message)
            for message in kept["messages"]
            if not str(message.get("event_type", "")).startswith("data-sys-") and not is_aside(message)
        ]
    return kept


def _with_parts(fields: Fields) -> Fields:
    kept = _kept(fields)
    if kept.get("parts") is not None:
        kept["parts"] = [_kept(part) for part in kept["parts"]]
    return kept


def _kept(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key not in SKIPPED and not key.startswith("meta:")}


def jcs(value: Any) -> bytes:
    """Return RFC 8785 JSON. orjson's sorted output differs only for some floats, large integers and non-ASCII keys."""
    if not _plain(value):
        value = _whole(value)
        if not _plain(value):
            return rfc8785.dumps(_as_double(value))
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # nested more deeply than orjson allows
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> bool:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is dict:
        fields: Fields = value
        for key, item in fields.items():  # nearly always text; a generator and a call for each would cost 2 % of a turn
            if not key.isascii() or (type(item) is not str and not _plain(item)):
                return False
        return True
    if kind is list:
        items: list[Any] = value
        for item in items:  # noqa: SIM110  # as above
            if not _plain(item):
                return False
        return True
    if kind is int:
        return bool(-MAX_EXACT < value < MAX_EXACT)
    if kind is float:
        return MIN_PLAIN_FLOAT <= abs(value) < MAX_EXACT and not value.is_integer()
    return False


def _whole(value: Any) -> Any:
    """Return a value with integral floats as integers: JavaScript writes 20.0 as 20."""
    if value.__class__ is float and -MAX_EXACT < value < MAX_EXACT and value.is_integer():
        return int(value)
    if value.__class__ is dict:
        return {key: _whole(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_whole(item) for item in value]
    return value


def _as_double(value: Any) -> Any:
    """Return a value with integers past 2^53 as the IEEE double that JavaScript reads: RFC 8785 has no other number."""
    if value.__class__ is int and not -MAX_EXACT < value < MAX_EXACT:
        try:
            return float(value)
        except OverflowError:
            return str(value)
    if isinstance(value, dict):
        return {key: _as_double(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_double(item) for item in value]
    return value


def sealed(record: TurnRecord) -> TurnRecord:
    """Return a record with its hash; text and numbers that UTF-8 JSON can't represent are replaced first."""
    if record["turn"] is None:
        return record
    try:
        record["hash"] = turn_hash(record["turn"])
    except (TypeError, ValueError, RecursionError):  # refused by orjson or rfc8785, or nested too deeply
        record = with_room(lambda: mended(record))
        record["hash"] = with_room(lambda: turn_hash(record["turn"] or {}))
    return record
