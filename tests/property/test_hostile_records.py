"""Arbitrary bytes, JSON and envelopes wherever records are read: taken or refused, and none stops the rest."""

import json
import uuid
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.dialects import DIALECTS
from tests.support.fleet import START
from topics import json_text, telemetry, turn_record
from topics.agent_event import explain
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import decode, encode

LATER = START + 10 * Limits().run_ms
THREADS = [str(uuid.UUID(int=number, version=4)) for number in range(3)]
TEXT = st.one_of(st.text(max_size=20), st.sampled_from(["\0", "\ud800", "\udfff\ud800", "", "constructor", "x" * 3000]))
NUMBER = st.one_of(
    st.integers(), st.sampled_from([2**53 - 1, 2**53, 2**63, -(2**63), 2**64, 10**400]), st.floats(allow_nan=False)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBER, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
KINDS = sorted({str(kind) for dialect in DIALECTS.values() for kind in dialect.handlers})
EVENT = st.one_of(
    JSON,
    st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "delta", "data", "toolCallId", "index", "event"), JSON)),
    st.builds(
        lambda kind, key, rest: {**(rest if isinstance(rest, dict) else {"data": rest}), key: kind},
        st.sampled_from([*KINDS, "data-sys-usage", "data-sys-x", "turnmill.request"]),
        st.sampled_from(["type", "event_kind", "event", "object", "kind"]),
        JSON,
    ),
)
ENVELOPE = st.fixed_dictionaries(
    {
        "v": st.just(1),
        "thread_id": st.sampled_from(THREADS),
        "run_id": st.sampled_from(["r", "s", "\0", "a/b#1-2.0"]),
        "agent_id": st.sampled_from(["a", "a\0"]),
        "seq": st.one_of(st.integers(0, 6), st.integers(0, 2**53 - 1)),
        "ts": st.one_of(st.just(START), st.integers(0, 2**53 - 1)),
        "dialect": st.sampled_from([*DIALECTS, "morse"]),
        "events": st.lists(EVENT, max_size=4),
    },
    optional={
        "tenant": st.sampled_from([None, "", "acme", "evil", "acme\0", "\ud800"]),
        "run": st.dictionaries(
            st.sampled_from(["model_name", "agent_name", "request", "parent_thread_id", "external_id"]), JSON
        ),
        "end": st.sampled_from(["complete", "aborted", "error", "disconnected", "over"]),
        "dt": st.lists(st.integers(), max_size=4),
    },
)


@st.composite
def wrong_somewhere(draw: st.DrawFn) -> bytes:
    """An envelope, one of whose fields is anything; or whose bytes are cut, or no UTF-8 any more."""
    envelope = draw(ENVELOPE)
    if draw(st.booleans()):
        envelope[draw(st.sampled_from([*envelope, "tenant", "run", "end", "dt", "new"]))] = draw(JSON)
    value = encode(envelope)
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(value)))
        value = value[:at] + draw(st.binary(max_size=4)) + value[at + draw(st.integers(0, 4)) :]
    return value


RECORD = st.one_of(
    wrong_somewhere(), wrong_somewhere(), JSON.map(json_text.dumps).map(str.encode), st.binary(max_size=60)
)


@given(RECORD)
@example(b'{"v":1e999}')
@example(b"[" * 5000)
def test_envelopes_are_read_or_refused(value: bytes) -> None:
    with suppress(InvalidRecord):
        envelope = decode(value)
        assert envelope["v"] == 1
        assert decode(encode(envelope)) == envelope
    for fault in explain(value):
        fault.encode("utf-8", "backslashreplace")


@given(st.lists(st.one_of(RECORD, st.none()), max_size=12), st.sampled_from(["plain", "polished", "spilled"]))
@settings(max_examples=3 * settings.default.max_examples)
def test_a_partition_takes_anything(values: list[bytes | None], how: str) -> None:
    """Every record ends in a turn, in a dead letter, or is known already; none is left, and none stops the floor."""
    limits = Limits(open_bytes=1) if how == "spilled" else Limits()
    partition = Partition(DIALECTS, limits, 0, _failing_at_times if how == "polished" else None)
    for number, value in enumerate(values):
        partition.feed([StoredRecord(value, number, START + number)])
        if how == "spilled":
            partition.spill()
    partition.tick(LATER)
    assert partition.open_runs() == 0
    assert partition.floor() == len(values)
    for turn in partition.out.turns:
        assert turn_record.decode(turn_record.encode(turn))["turn_id"] == turn["turn_id"]
    for one in partition.out.telemetry:
        telemetry.decode(telemetry.encode(one))
    again = RestoredState()
    for name, entry in [*partition.out.segments, *partition.out.marks]:
        again.take(name.encode("utf-8", "surrogatepass"), entry)


def _failing_at_times(turn: Any) -> Any:
    if "\\u0000" in json.dumps(turn):
        raise ValueError("a rule that fails")
    return turn


@given(st.one_of(RECORD, st.dictionaries(TEXT, JSON).map(json_text.dumps).map(str.encode)))
def test_turn_records_are_read_or_refused(value: bytes) -> None:
    with suppress(InvalidRecord):
        assert turn_record.decode(value)["turn_id"]


@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(lambda a, b: f"{a}#{b}".encode("utf-8", "replace"), TEXT, TEXT),
        st.sampled_from(
            [b"t/r#closed-1", b"t/r#1-2.0", b"t/r#closed-", b"t/r#1-2", b"#", b"t/r#-1--2.-3", b"t/r#1-2.0.0"]
        ),
    ),
    st.one_of(
        RECORD,
        st.builds(
            lambda head, rest: json_text.dumps(head).encode() + b"\n" + rest,
            st.fixed_dictionaries(
                {"v": st.one_of(st.just(1), JSON), "at": st.one_of(st.just(5), JSON)},
                optional={"sizes": st.one_of(st.lists(st.integers(-3, 70)), JSON), "traceparent": JSON, "tenant": JSON},
            ),
            st.binary(max_size=60),
        ),
        st.fixed_dictionaries(
            {"v": st.just(1), "seq": JSON, "complete": JSON, "at": JSON, "revision": JSON}, optional={"tenant": JSON}
        )
        .map(json_text.dumps)
        .map(str.encode),
    ),
)
def test_state_entries_are_read_or_refused(key: bytes, value: bytes) -> None:
    found = RestoredState()
    with suppress(InvalidRecord):
        found.take(key, value)
    partition = Partition(DIALECTS, Limits(), 0)
    partition.restore(found)
    partition.tick(LATER)
    assert partition.open_runs() == 0
