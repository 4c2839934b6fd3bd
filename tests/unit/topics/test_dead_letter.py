import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics.dead_letter import MAX_DETAIL_CHARACTERS, PREFIX, DeadLetter, from_record
from turnmill.errors import Reason

BYTES = st.none() | st.binary()
COUNT = st.integers(0, 2**62)


@given(
    st.sampled_from(Reason),
    st.text(max_size=MAX_DETAIL_CHARACTERS),
    st.integers(0, 99),
    COUNT,
    COUNT,
    BYTES,
    BYTES,
    st.integers(0, 99),
)
def test_there_and_back(
    reason: Reason,
    detail: str,
    partition: int,
    offset: int,
    at: int,
    key: bytes | None,
    value: bytes | None,
    again: int,
) -> None:
    letter = DeadLetter(reason, detail, "turnmill.events", partition, offset, at, key, value, again)
    assert from_record(key, value, letter.headers()) == letter


def test_a_long_detail_is_cut_and_half_a_pair_is_written_somehow() -> None:
    headers = dict(DeadLetter(Reason.TOO_LARGE, "\ud800" + "x" * 5000, "t", 0, 0, 0, None, None).headers())
    assert headers[f"{PREFIX}detail"] == b"?" + b"x" * (MAX_DETAIL_CHARACTERS - 1)


def test_headers_of_others_are_left_alone() -> None:
    letter = DeadLetter(Reason.LATE_EVENT, "d", "t", 1, 2, 3, b"k", b"v")
    assert from_record(b"k", b"v", [("trace", b"\xff"), *letter.headers(), ("detail", b"not ours")]) == letter


@pytest.mark.parametrize("name", ["reason", "detail", "topic", "partition", "offset", "time"])
def test_a_record_that_is_no_letter(name: str) -> None:
    headers = [
        h for h in DeadLetter(Reason.LATE_EVENT, "d", "t", 1, 2, 3, None, None).headers() if h[0] != PREFIX + name
    ]
    with pytest.raises(KeyError):
        from_record(None, None, headers)


def test_a_reason_that_is_not_on_the_list() -> None:
    headers = dict(DeadLetter(Reason.LATE_EVENT, "d", "t", 1, 2, 3, None, None).headers())
    with pytest.raises(ValueError, match="bored"):
        from_record(None, None, list({**headers, f"{PREFIX}reason": b"bored"}.items()))
