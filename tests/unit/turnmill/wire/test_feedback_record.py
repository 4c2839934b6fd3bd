"""Records of feedback: what is well formed is taken as it is, and everything else is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import CallerError, feedback
from turnmill.errors import InvalidRecord
from turnmill.identity import thread_uuid
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode
from turnmill.wire.feedback_record import record_of

NO_VALUE = b'{"v":1,"at":1,"id":"i","thread_id":"t","name":"n"}'
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50)
SAID = st.fixed_dictionaries(
    {
        "name": TEXT,
        "value": st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50),
    },
    optional={"turn_id": TEXT, "run_id": TEXT, "message": st.integers(0, 100), "comment": TEXT, "by": TEXT, "id": TEXT},
)


@given(SAID, TEXT, st.none() | TEXT)
def test_what_is_said_comes_back(said: dict[str, Any], thread: str, tenant: str | None) -> None:
    record = made(thread, tenant, said)
    assert record_of(encode(record)) == record
    assert {name: record[name] for name in said} == said
    assert (record["thread_id"], record.get("tenant")) == (thread_uuid(thread, tenant)[0], tenant)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": "", "value": 1}, "name is a text of 1 to 1,000 characters"),
        ({"name": "n", "value": [1]}, "value is a number, a text"),
        ({"name": "n", "value": float("nan")}, "no number of JSON"),
        ({"name": "n", "value": 2**53}, r"less than 2\^53"),
        ({"name": "n", "value": "x" * 1001}, "say more in comment"),
        ({"name": "n", "value": 1, "comment": "x" * 10_001}, "comment is a text of 1 to 10,000"),
        ({"name": "n", "value": 1, "turn_id": "a\0b"}, "turn_id is a text"),
        ({"name": "n", "value": 1, "message": -1}, "from 0 on"),
        ({"name": "n", "value": 1, "message": True}, "from 0 on"),
        ({"name": "n", "value": 1, "id": "x" * 1001}, "id is a text"),
        ({"name": "n", "value": 1, "comment": "\ud800"}, "comment is a text"),
        ({"name": "n", "value": "a\0b"}, "value: a text"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRecord, match=problem):
        made("chat", None, said)
    with pytest.raises(CallerError, match=problem):
        feedback("chat", **said)


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"{}", b'{"v":2}', b'{"v":1,"at":"now"}', b'{"v":1,"at":1}', b"\xff", NO_VALUE]
)
def test_what_is_no_record_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        record_of(value)


def test_members_that_nobody_knows_are_left_out() -> None:
    record = made("chat", None, {"name": "n", "value": 1})
    assert record_of(encode({**record, "more": [1] * 1000, "comment": None})) == record
