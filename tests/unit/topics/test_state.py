"""Entries of the state topic: there and back, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics import state
from topics.state import Clocks, Closed, RunKey, Segment
from turnmill.errors import InvalidRecord

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
OFFSETS = st.integers(0, 2**62)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TENANTS = st.none() | NAMES


@given(TENANTS, NAMES, OFFSETS, OFFSETS, st.lists(st.binary()), st.integers(0, 9))
def test_segments(tenant: str | None, run_id: str, first: int, last: int, records: list[bytes], part: int) -> None:
    segment = Segment(first, last, 1_768_928_342_002, Clocks(1_768_928_342_002), records, part)
    run = RunKey(tenant, THREAD, run_id)
    key = state.segment_key(run, segment).encode()
    assert state.decode(key, state.encode(run, segment)) == (run, segment)
    assert state.mark_of(key) is None


@given(TENANTS, NAMES, OFFSETS, st.integers(-1, 2**53), st.booleans())
def test_marks(tenant: str | None, run_id: str, offset: int, seq: int, complete: bool) -> None:  # noqa: FBT001
    closed = Closed(offset, seq, complete, 5, 3)
    run = RunKey(tenant, THREAD, run_id)
    key = state.closed_key(run, closed).encode()
    assert state.decode(key, state.encode(run, closed)) == (run, closed)
    assert state.mark_of(key) == (THREAD, run_id, offset)


SEGMENT = state.encode(RunKey(None, THREAD, "r"), Segment(1, 2, 3, Clocks(3), [b"{}", b"[]"]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", SEGMENT),
        (b"\xff#1-2.0", SEGMENT),
        (b"t/r#1-2", SEGMENT),
        (b"t/r#1-x.0", SEGMENT),
        (b"t/r#closed-x", SEGMENT),
        (b"t/r#closed-1", SEGMENT),
        (b"t/r#1-2.0", b""),
        (b"t/r#1-2.0", b"5"),
        (b"t/r#1-2.0", b"[]"),
        (b"t/r#1-2.0", b"{}"),
        (b"t/r#1-2.0", SEGMENT.replace(b'"v":1', b'"v":2')),
        (b"t/r#1-2.0", SEGMENT.replace(b'"tenant":null', b'"tenant":5')),
        (b"t/r#1-2.0", SEGMENT[:-1]),
        (b"t/r#1-2.0", SEGMENT + b"x"),
        (b"t/r#1-2.0", SEGMENT.replace(b'"tenant":null,', b"")),
        (b"t/r#1-2.0", SEGMENT.replace(b',"clocks":[3,null,null]', b"")),
        (b"t/r#1-2.0", SEGMENT.replace(b"[2,2]", b'["2",2]')),
    ],
)
def test_what_is_none_of_ours(key: bytes, value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        state.decode(key, value)
