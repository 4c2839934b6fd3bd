"""The state topic: the state of runs whose raw records a worker will not read again.

There are two kinds of entries. Both stay true for ever, so that a delayed writer does no harm by writing them again:

    thread_id/run_id#FROM-TO.N   part N of a segment: the run's raw records at raw offsets FROM..TO
    thread_id/run_id#closed-AT   the run was closed; its newest record is at raw offset AT

A key doesn't need the run's tenant: two tenants may have a run with the same ids, but each raw offset belongs to one of
them. The tenant is in the value, null if the run has none.

A tombstone removes an entry that no worker needs any more; the topic's retention removes the others.
"""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import orjson

from topics import json_text
from turnmill.errors import InvalidRecord, Reason

VERSION = 1
MAX_SEGMENT_BYTES = 800_000


class RunKey(NamedTuple):
    """The identity of a run; `tenant` is None if there is none."""

    tenant: str | None
    thread_id: str
    run_id: str


class Clocks(NamedTuple):
    """Times (broker ms) since when a run is open, waits for missing events, and has ended by its stream; or None."""

    opened: int
    gap: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Raw records of one open run, in the order they were read; `at` is the broker's time (ms) of the last.

    `clocks`: the run's times after that record. `read`: the raw offset up to which the events of a parked run were
    read, and their telemetry and dead letters sent; None: it was not parked.

    A large segment is split into several parts. Its value is a line of JSON, {"v", "tenant", "at", "sizes", "clocks",
    "read"?, "traceparent"?}, followed by the records byte for byte, since decoding might refuse or change them.
    `traceparent` is the run's; it may have been a header of its first record.
    """

    first_offset: int
    last_offset: int
    at: int
    clocks: Clocks
    records: list[bytes] = field(default_factory=list)
    part: int = 0
    traceparent: str | None = None
    read: int | None = None

    @property
    def size(self) -> int:
        """The number of bytes of its records."""
        return sum(map(len, self.records))


class Closed(NamedTuple):
    """A run that is closed. All its events up to `seq` were read, `at` is broker ms.

    It can't be reopened if it is complete, or if it was cut off because it was too large.
    """

    offset: int
    seq: int
    complete: bool
    at: int
    revision: int = 0
    cut: bool = False

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The rank among a run's marks; the highest counts: a final mark, else the one after the last reopening."""
        return self.complete or self.cut, self.revision, self.offset


def segment_key(run: RunKey, segment: Segment) -> str:
    """Return the key of a segment."""
    return segment_name(run, segment.first_offset, segment.last_offset, segment.part)


def segment_name(run: RunKey, first: int, last: int, part: int) -> str:
    """Return the key of a part of the segment with the raw offsets from `first` to `last`."""
    return f"{run.thread_id}/{run.run_id}#{first}-{last}.{part}"


def closed_key(run: RunKey, closed: Closed) -> str:
    """Return the key of a mark."""
    return f"{run.thread_id}/{run.run_id}#closed-{closed.offset}"


def encode(run: RunKey, entry: Segment | Closed) -> bytes:
    """Return the record's value."""
    head: dict[str, Any] = {"v": VERSION, "tenant": run.tenant, "at": entry.at}
    if isinstance(entry, Closed):
        mark = {**head, "seq": entry.seq, "complete": entry.complete, "revision": entry.revision}
        mark = {**mark, "cut": True} if entry.cut else mark
        return json_text.trimmed(orjson.dumps(mark))
    head |= {"sizes": [len(record) for record in entry.records], "clocks": list(entry.clocks)}
    head |= json_text.present({"read": entry.read, "traceparent": entry.traceparent})
    return b"\n".join((orjson.dumps(head), b"".join(entry.records)))


def mark_of(key: bytes) -> tuple[str, str, int] | None:
    """Return (thread_id, run_id, offset) of a mark's key; None for any other key. Raises InvalidRecord."""
    try:
        thread_id, run_id, which = _split(key)
    except ValueError as error:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"not the key of a state entry: {error}") from None
    closed, _, offset = which.partition("-")
    return (thread_id, run_id, int(offset)) if closed == "closed" and offset.isdecimal() else None


def _split(key: bytes) -> tuple[str, str, str]:
    name, _, which = key.decode().rpartition("#")
    thread_id, _, run_id = name.partition("/")
    return thread_id, run_id, which


def decode(key: bytes, value: bytes) -> tuple[RunKey, Segment | Closed]:
    """Return (run, entry) of a record's key and value. Raises InvalidRecord."""
    try:
        thread_id, run_id, which = _split(key)
        head, _, rest = value.partition(b"\n")
        body: dict[str, Any] = orjson.loads(head)
        if body["v"] != VERSION:
            raise InvalidRecord(Reason.UNSUPPORTED_VERSION, f"state entry of version {body['v']!r:.80}")
        run = RunKey(_tenant(body["tenant"]), thread_id, run_id)
        first, _, last = which.partition("-")
        if first == "closed":
            seq, at, revision = (_whole(body[name]) for name in ("seq", "at", "revision"))
            return run, Closed(_whole(int(last)), seq, bool(body["complete"]), at, revision, bool(body.get("cut")))
        last, _, part = last.partition(".")
        ends = list(accumulate(body["sizes"], initial=0))
        if ends[-1] != len(rest):
            raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"a segment of {len(rest)} bytes instead of {ends[-1]}")
        records = [rest[start:end] for start, end in pairwise(ends)]
        parent = body.get("traceparent")
        known = parent if isinstance(parent, str) and parent.isascii() else None
        clocks = _clocks(*body["clocks"])
        read = _whole(body["read"]) if "read" in body else None
        return run, Segment(int(first), int(last), _whole(body["at"]), clocks, records, int(part), known, read)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"not a state entry: {error}") from None


def _tenant(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no tenant")
    return value


def _clocks(opened: object, gap: object, ended: object) -> Clocks:
    return Clocks(_whole(opened), None if gap is None else _whole(gap), None if ended is None else _whole(ended))


def _whole(value: object) -> int:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.80} is not a whole number of 64 bits")
    return value
