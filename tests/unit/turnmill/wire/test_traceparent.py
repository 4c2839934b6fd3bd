"""W3C Trace Context: what is a traceparent, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill.wire.traceparent import FORM, TraceParent, headers, of_headers, parse

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAID = f"00-{TRACE}-{SPAN}-01"


def test_the_parts() -> None:
    assert parse(SAID) == TraceParent(SAID, TRACE, SPAN, 1)
    later = f"cc-{TRACE}-{SPAN}-03-what-a-later-version-adds"
    assert parse(later) == TraceParent(later, TRACE, SPAN, 3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        7,
        SAID.upper(),
        SAID + "-more",
        SAID + "\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-\ud800",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1000,
    ],
)
def test_what_is_none(value: object) -> None:
    assert parse(value) is None


def test_headers() -> None:
    assert of_headers(headers(SAID)) == SAID
    assert of_headers([("other", b"1"), ("traceparent", None), ("traceparent", SAID.encode())]) == SAID
    assert of_headers([]) is None
    assert of_headers([("traceparent", b"\xff\x00")]) is None


@given(st.text() | st.from_regex(FORM, fullmatch=True))
def test_whatever_is_taken_survives_a_header(value: str) -> None:
    found = parse(value)
    if found is not None:
        assert of_headers(headers(value)) == value
        assert int(found.trace_id, 16)
