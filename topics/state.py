"""The state topic: what a worker must know of runs whose raw records it will not read again.

There are two kinds of entries. Both stay true for ever, so that a late writer can't make them wrong by writing again:

    thread_id/run_id#FROM-TO.N   part N of a segment: the run's raw records at raw offsets FROM..TO
    thread_id/run_id#closed-AT   the run was closed; its newest record is at raw offset AT

A tombstone removes an entry that no worker needs any more; else the topic's retention does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import orjson

from threadmill.errors import InvalidRecord, Reason

VERSION = 1
MAX_SEGMENT_BYTES = 800_000

RunKey = tuple[str, str]  # (thread_id, run_id)


@dataclass(frozen=True, slots=True)
class Segment:
    """Raw records of one open run, in the order they were read; `at` is the broker's time (ms) of the last.

    A large segment is split into several parts. Its value is a line of JSON, {"v", "at", "sizes", "traceparent"?}, and
    behind it the records as they came, byte for byte: decoding could refuse them, or change a number.
    `traceparent` is the run's, which may have been a header of its first record.
    """

    first_offset: int
    last_offset: int
    at: int
    records: list[bytes] = field(default_factory=list)
    part: int = 0
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """A run that is over. `seq` is the highest one seen, `at` broker ms; only a complete one can't be reopened."""

    offset: int
    seq: int
    complete: bool
    at: int
    revision: int = 0


def segment_key(run: RunKey, segment: Segment) -> str:
    """Key of a segment."""
    return f"{run[0]}/{run[1]}#{segment.first_offset}-{segment.last_offset}.{segment.part}"


def closed_key(run: RunKey, closed: Closed) -> str:
    """Key of a mark."""
    return f"{run[0]}/{run[1]}#closed-{closed.offset}"


def encode(entry: Segment | Closed) -> bytes:
    """-> record value."""
    if isinstance(entry, Segment):
        head: dict[str, Any] = {"v": VERSION, "at": entry.at, "sizes": [len(record) for record in entry.records]}
        if entry.traceparent is not None:
            head["traceparent"] = entry.traceparent
        return b"\n".join((orjson.dumps(head), b"".join(entry.records)))
    return orjson.dumps(
        {"v": VERSION, "seq": entry.seq, "complete": entry.complete, "at": entry.at, "revision": entry.revision}
    )


def run_of(key: bytes) -> RunKey:
    """Record key -> run. Raises InvalidRecord."""
    try:
        return _split(key)[0]
    except ValueError as error:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"not the key of a state entry: {error}") from None


def _split(key: bytes) -> tuple[RunKey, str]:
    name, _, which = key.decode().rpartition("#")
    thread_id, _, run_id = name.partition("/")
    return (thread_id, run_id), which


def decode(key: bytes, value: bytes) -> tuple[RunKey, Segment | Closed]:
    """Record key and value -> (run, entry). Raises InvalidRecord."""
    try:
        run, which = _split(key)
        head, _, rest = value.partition(b"\n")
        body: dict[str, Any] = orjson.loads(head)
        if body["v"] != VERSION:
            raise InvalidRecord(Reason.UNSUPPORTED_VERSION, f"state entry of version {body['v']!r:.80}")
        first, _, last = which.partition("-")
        if first == "closed":
            seq, at, revision = (_whole(body[name]) for name in ("seq", "at", "revision"))
            return run, Closed(_whole(int(last)), seq, bool(body["complete"]), at, revision)
        last, _, part = last.partition(".")
        ends = list(accumulate(body["sizes"], initial=0))
        if ends[-1] != len(rest):
            raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"a segment of {len(rest)} bytes instead of {ends[-1]}")
        records = [rest[start:end] for start, end in pairwise(ends)]
        parent = body.get("traceparent")
        known = parent if isinstance(parent, str) and parent.isascii() else None
        return run, Segment(int(first), int(last), _whole(body["at"]), records, int(part), known)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"not a state entry: {error}") from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.80} is not a whole number of 64 bits")
    return value
