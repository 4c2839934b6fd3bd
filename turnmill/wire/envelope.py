"""The envelope: one record of the events topic, one or more consecutive events of one run (fixed format).

    {"v": 1, "thread_id": UUID, "run_id": str, "agent_id": str, "seq": 12, "ts": epoch ms, "dialect": str,
     "events": [{...}, ...], "dt": [ms after ts, one per event], "tenant": str,
     "run": {...RunInfo}, "end": "complete" | "aborted" | "error" | "disconnected"}

`seq` is the number of the first event in its run; the n-th event of a record has `seq + n`. `dt`, `tenant`,
`run` and `end` are optional; an empty `tenant` is none. Tenant, thread_id and run_id name the run: a record of another
tenant belongs to another run. `decode` is what the pipeline runs for each record: orjson and a dozen checks.
`topics.agent_event` has the same as a strict model, which lists everything that is wrong with a record.
"""

import gc
import math
import reprlib
from collections.abc import Iterable
from typing import Any

import orjson

from turnmill.errors import InvalidRecord, Reason
from turnmill.identity import is_uuid
from turnmill.limits import LEVELS, NAMED_CHARACTERS, TENANT_CHARACTERS
from turnmill.wire import deep_json
from turnmill.wire.nesting import too_deep

TOPIC = "events"  # after the prefix of the settings
VERSION = 1
MAX_INTEGER = 2**53 - 1  # the largest integer that every JSON parser reads exactly
LARGE_BYTES = 65_536
NAMES = (  # of what is known about a run
    "agent_name",
    "model_name",
    "provider_name",
    "parent_run_id",
    "parent_thread_id",
    "continues",
    "replaces",
    "external_id",
)
ENDS = frozenset({"complete", "aborted", "error", "disconnected"})

REFUSED_BATCH = "turnmill-refused-batch"  # header of a record that stands for a batch: turnmill/kafka/unpacking.py

Headers = list[tuple[str, bytes]]  # of a Kafka record


def loads(data: bytes, levels: int = LEVELS) -> Any:
    """Parse JSON. orjson refuses lone surrogates, which JavaScript writes; the standard library reads them.

    Raises InvalidRecord, also for more than `levels` levels of nesting.
    """
    try:
        return _parsed(data)
    except orjson.JSONDecodeError as error:
        if too_deep(data, levels):
            detail = f"nested too deeply: at most {levels:,} levels are read"
            raise InvalidRecord(Reason.UNDECODABLE, detail) from None
        if b"\\u" not in data and levels == LEVELS:
            raise InvalidRecord(Reason.UNDECODABLE, f"not JSON in UTF-8: {error}") from None
    try:
        return deep_json.loads(data, _no_number, _finite)
    except ValueError as error:
        raise InvalidRecord(Reason.UNDECODABLE, f"not JSON in UTF-8: {error}") from None


def _parsed(data: bytes) -> Any:
    """Parse with the garbage collector paused: for many small values it takes twenty times as long as the parser."""
    if len(data) < LARGE_BYTES or not gc.isenabled():
        return orjson.loads(data)
    gc.disable()
    try:
        return orjson.loads(data)
    finally:
        gc.enable()


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def decode(data: bytes | None) -> dict[str, Any]:
    """Return the envelope in a record's value, after the checks that assembly relies on. Raises InvalidRecord."""
    if data is None:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "the record has no value")
    return checked(loads(data))


def checked(value: Any) -> dict[str, Any]:
    """Return the envelope in a parsed JSON value, with the same checks. Raises InvalidRecord."""
    if not isinstance(value, dict):
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"a JSON object is expected, not a {type(value).__name__}")
    for key in ("v", "seq", "ts"):
        if type(value.get(key)) is float:
            value[key] = integer(value[key])
    dt = value.get("dt")
    if isinstance(dt, list) and float in {*map(type, dt)}:
        value["dt"] = [integer(each) for each in dt]
    version = value.get("v")
    if version != VERSION or version is True:
        if version is None:
            raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "'v' is missing: is this a Turnmill record?")
        detail = f"envelope version {reprlib.repr(version)}; this worker reads {VERSION}"
        raise InvalidRecord(Reason.UNSUPPORTED_VERSION, detail)
    problem = _problem(value)
    if problem:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, problem)
    value["thread_id"] = value["thread_id"].lower()
    if value.get("tenant") == "":
        value["tenant"] = None
    return value


def integer(value: Any) -> Any:
    """Return a number without a fraction as an int: to JSON Schema 12.0 is an integer, and some languages write it so.

    Beyond MAX_INTEGER, where a float stands for several integers, it becomes that; anything else is returned as it is.
    """
    if type(value) is not float or not value.is_integer():
        return value
    return max(-MAX_INTEGER - 1, min(int(value), MAX_INTEGER + 1))


def _problem(value: dict[str, Any]) -> str | None:
    for key in ("thread_id", "run_id", "agent_id", "dialect"):
        field = value.get(key)
        if not isinstance(field, str) or not field:
            return f"'{key}' must be a non-empty string, got {reprlib.repr(field)}"
        if len(field) > NAMED_CHARACTERS:
            return f"'{key}' has {len(field):,} characters; at most {NAMED_CHARACTERS:,} are taken"
        if not field.isascii() and _is_broken(field):
            return f"'{key}' holds half of a surrogate pair: {field!r:.80}"
    if not is_uuid(value["thread_id"]):
        return f"'thread_id' must be a UUID, got {value['thread_id']!r:.80}; derive one with UUIDv5 from any other id"
    for key in ("seq", "ts"):
        field = value.get(key)
        if type(field) is not int or not 0 <= field <= MAX_INTEGER:
            return f"'{key}' must be an integer from 0 to 2^53-1, got {reprlib.repr(field)}"
    if not isinstance(value.get("events"), list):
        return f"'events' must be a list, got {reprlib.repr(value.get('events'))}"
    dt = value.get("dt")
    if dt is not None and not (isinstance(dt, list) and len(dt) == len(value["events"]) and {*map(type, dt)} <= {int}):
        return "'dt' must be a list of integers, one per event"
    end = value.get("end")
    if end is not None and not (isinstance(end, str) and end in ENDS):
        return f"'end' must be one of {sorted(ENDS)}, got {reprlib.repr(end)}"
    for key, kind in (("run", dict), ("tenant", str)):
        if value.get(key) is not None and not isinstance(value[key], kind):
            return f"'{key}' must be {'an object' if kind is dict else 'a string'}, got {reprlib.repr(value[key])}"
    for key in NAMES if value.get("run") else ():
        field = value["run"].get(key)
        if isinstance(field, str) and len(field) > NAMED_CHARACTERS:
            return f"'run.{key}' has {len(field):,} characters; at most {NAMED_CHARACTERS:,} are taken"
    tenant = value.get("tenant") or ""
    if len(tenant) > TENANT_CHARACTERS:
        return f"'tenant' has {len(tenant):,} characters; at most {TENANT_CHARACTERS} are taken"
    return (
        f"'tenant' holds half of a surrogate pair: {tenant!r:.80}"
        if not tenant.isascii() and _is_broken(tenant)
        else None
    )


def _is_broken(text: str) -> bool:
    return text.encode("utf-8", "replace").decode() != text


def batch_refusal(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Return why the batch that this record replaces was not unpacked; None for any other record."""
    return next(((why or b"").decode("utf-8", "replace") for name, why in headers if name == REFUSED_BATCH), None)


def encode(envelope: dict[str, Any]) -> bytes:
    """Return an envelope as a record's value. Lone surrogates are written as JSON escapes, as JavaScript does."""
    try:
        return orjson.dumps(envelope)
    except TypeError:  # a lone surrogate, an integer over 64 bits, or many levels
        return deep_json.dumps(envelope).encode()
