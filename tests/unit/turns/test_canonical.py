"""RFC 8785, with the vectors of the RFC itself, and what a hash leaves out."""

import struct
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.canonical import essence, jcs, turn_hash

# RFC 8785, appendix B: IEEE 754 double -> JSON.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_numbers(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert jcs(number) == text.encode()


def test_the_rfcs_own_example() -> None:
    given_ = orjson.loads(
        r'{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        r' "string": "\u20ac$\u000F\u000aA\u0027\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}'
    )
    assert jcs(given_).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf_16() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(orjson.loads(jcs(dict.fromkeys(keys, 1)))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2**53 - 1, "9007199254740991"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (2**64, "18446744073709552000"),
        (10**400, f'"{10**400}"'),
        (True, "true"),
    ],
)
def test_integers_are_what_a_javascript_reader_sees(number: int, text: str) -> None:
    assert jcs(number).decode() == text
    assert jcs({"é": [number]}).decode() == f'{{"é":[{text}]}}'


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_the_fast_way_is_the_same_as_the_slow_one(value: Any) -> None:
    assert jcs(value) == rfc8785.dumps(value)


def test_deep_nesting() -> None:
    assert jcs(orjson.loads("[" * 400 + "]" * 400)) == b"[" * 400 + b"]" * 400


TURN: dict[str, Any] = {
    "turn_type": "agent",
    "agent_id": "a",
    "started_at": "2026-01-20T16:59:02.002Z",
    "completed_at": "2026-01-20T16:59:03.002Z",
    "completion_status": "complete",
    "total_usage": {"input_tokens": 5},
    "meta:turn_id": "x",
    "messages": [
        {"message_type": "system", "timestamp": "t", "event_type": "data-sys-usage", "event_data": {}},
        {
            "message_type": "system",
            "timestamp": "t",
            "event_type": "data-app-x",
            "event_data": {"usage": 1, "meta:x": 2},
        },
        {
            "message_type": "response",
            "timestamp": "t",
            "usage": {"input_tokens": 5},
            "parts": [{"part_kind": "tool-call", "args": {"timestamp": 1, "usage": 2}, "meta:y": 3}],
        },
    ],
}


def test_what_is_hashed() -> None:
    assert essence(TURN) == {
        "turn_type": "agent",
        "agent_id": "a",
        "completion_status": "complete",
        "messages": [
            {"message_type": "system", "event_type": "data-app-x", "event_data": {"usage": 1, "meta:x": 2}},
            {"message_type": "response", "parts": [{"part_kind": "tool-call", "args": {"timestamp": 1, "usage": 2}}]},
        ],
    }


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"started_at": "1970-01-01T00:00:00Z"}, True),
        ({"meta:anything": 1}, True),
        ({"total_usage": None}, True),
        ({"agent_id": "b"}, False),
        ({"completion_status": "interrupted"}, False),
        ({"extra": 1}, False),
        ({"messages": TURN["messages"][1:]}, True),
        ({"messages": TURN["messages"][2:]}, False),
    ],
)
def test_what_changes_the_hash(change: dict[str, Any], same: bool) -> None:  # noqa: FBT001
    assert (turn_hash({**TURN, **change}) == turn_hash(TURN)) is same


def test_the_time_of_an_interruption_is_not_hashed_its_reason_is() -> None:
    def hash_of(**interruption: str) -> str:
        return turn_hash({"turn_type": "agent", "interruption": interruption})

    assert hash_of(reason="error", interrupted_at="a") == hash_of(reason="error", interrupted_at="b")
    assert hash_of(reason="error") != hash_of(reason="timeout")


@pytest.mark.parametrize("turn", [{"interruption": None}, {"messages": None}, {"parts": None}, {"messages": []}, {}])
def test_null_is_as_good_as_anything(turn: dict[str, Any]) -> None:
    assert len(turn_hash({"turn_type": "agent", **turn})) == 64
