"""The turns topic: one record is one finished turn and its identity, or a fact about its thread.

A record is a plain JSON object. `turn` is a ThreadProtocol turn; a record without one only has thread facts (an agent's
configuration, a title, a link). Writing a record again changes nothing: `turn_id` is derived from (thread_id, run_id,
ordinal). A stored turn is replaced only by a record that has all of its events and more, or that has the same events
and is complete, of a higher revision, or ended by the publisher (pipeline.turns.event_coverage,
pipeline.turns.thread_document.rank).
"""

import re
from typing import Any, Final, NotRequired, TypedDict

from topics import json_text
from topics.json_text import object_of
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import OWN_LEVELS
from turnmill.wire.envelope import loads

VERSION = 1
CACHE_SIZE: Final = 8  # `requests` members of earlier records that are kept
CACHED_BYTES: Final = 100_000  # the largest JSON of one of them
LABELS: Final = "meta:labels"  # in `thread` of a record, and in a document: `turnmill.labels`
KEY: Final = re.compile(r"[^\0\ud800-\udfff]{1,500}", re.DOTALL)


class TurnRecord(TypedDict):
    """Value of the turns topic; the key is thread_id."""

    v: int
    thread_id: str
    run_id: str
    turn_id: str
    agent_id: str
    dialect: str
    revision: int
    status: str  # complete | interrupted
    hash: str | None  # canonical hash, hex SHA-256; null without a turn
    events: int  # the number of the run's events that were read so far
    turn: dict[str, Any] | None  # ThreadProtocol UserTurn or AgentTurn
    ranges: list[list[int]]  # those events, as [first, last] seq of each stretch
    ordinal: NotRequired[int]  # index among the records of its run, if it is not 0
    at: NotRequired[int]  # epoch ms at which a record without turn stated its facts
    tenant: NotRequired[str]
    agents: NotRequired[list[dict[str, Any]]]  # ThreadProtocol AgentConfig
    thread: NotRequired[dict[str, Any]]  # the run's facts about it: external_id, title, metadata, ended_at, LABELS
    links: NotRequired[list[dict[str, Any]]]  # {"from": thread_id, "thread_id", "relation", "metadata"?}
    timings: NotRequired[list[dict[str, int | None]]]  # per response: ttft_ms, duration_ms
    parent: NotRequired[dict[str, str]]  # {"run_id"?, "thread_id"?} of the run that started this one
    lineage: NotRequired[dict[str, Any]]  # facts about its run's relations to other runs: pipeline.turns.lineage
    imported: NotRequired[bool]  # published after the fact: webhooks, budgets and live figures ignore it
    traceparent: NotRequired[str]  # W3C: the publisher's span around the run
    requests: NotRequired[dict[str, Any]]  # hash -> body of each request that the turn's responses name


def encode(record: TurnRecord) -> bytes:
    """Return the record's value; floats, key order and text exactly as assembled: a replay gives the same bytes."""
    return json_text.encoded(record)


def decode(data: bytes | None) -> TurnRecord:
    """Record value -> TurnRecord. Raises InvalidRecord."""
    value = _read(data) if data is not None else None
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a turn record of version 1")
    missing = [k for k in ("thread_id", "run_id", "turn_id", "agent_id", "revision", "status") if k not in value]
    if missing:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"turn record without {', '.join(missing)}")
    wrong = [k for k in ("thread_id", "turn_id") if not isinstance(value[k], str) or not KEY.fullmatch(value[k])]
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"turn record whose {', '.join(wrong)} is no key of a database")
    return value  # type: ignore[return-value]  # checked above; the rest is ours


def _read(data: bytes) -> Any:
    """Parse a record; `requests` that are equal to those of an earlier record are not parsed again, but shared.

    They are a record's last member, and recognized by their text: within a JSON string the quotes would be escaped, and
    the brace after it closes the record.
    """
    for last, requests in _newest:
        if data.endswith(last):
            value = loads(data[: -len(last)] + b"}", OWN_LEVELS)
            value["requests"] = requests
            return value
    value = loads(data, OWN_LEVELS)
    asked = object_of(value).get("requests")
    if asked and isinstance(asked, dict):
        last = last_member(asked)
        if len(last) <= CACHED_BYTES and data.endswith(last):
            _newest.insert(0, (last, asked))
            del _newest[CACHE_SIZE:]
    return value


def last_member(requests: json_text.Fields) -> bytes:
    """Return the end of a record's JSON, as `encode` writes it, if it has these requests."""
    return b',"requests":%b}' % json_text.dumps(requests).encode()


_newest: Final[list[tuple[bytes, json_text.Fields]]] = []  # the ends of records, and their requests
