import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics import json_text
from turnmill.limits import OWN_LEVELS

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth: int) -> Any:
    value: Any = "core"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


@given(ANY_JSON)
def test_any_value_comes_back(value: Any) -> None:
    assert json_text.loads(json_text.dumps(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        "a\0b",
        "\ud83d alone",
        {"\udfff": [2**53 + 1, 2**63, 2**64, -(2**63) - 1, -(2**90)]},
        [-9_999_999_999_999_999_999, 9_999_999_999_999_999_999],
        {"long": "12345678901234567890123", "small": 1.5},
    ],
)
def test_what_orjson_refuses_or_rounds_comes_back(value: Any) -> None:
    text = json_text.dumps(value)
    assert json_text.loads(text) == value
    assert "\0" not in text
    text.encode()


@pytest.mark.parametrize("depth", [254, 500, OWN_LEVELS])
def test_deep_nesting_comes_back(depth: int) -> None:
    value = json_text.loads(json_text.dumps(nested(depth)))
    levels = 0
    while value != "core":
        value = value["in"] if isinstance(value, dict) else value[0]
        levels += 1
        if levels > depth:
            pytest.fail("deeper than it was")
    assert levels == depth


def test_a_line_is_one_to_every_reader() -> None:
    value = {"text\u2028": "a\u0085b\u2028c\u2029d\n\x0b\x1ce"}
    text = json_text.line(value)
    assert text.splitlines() == [text]
    assert json_text.loads(text) == value


@pytest.mark.parametrize("size", [0, 1, 400, 5_000, 100_000])
def test_a_trimmed_result_is_the_same_text_without_the_room_behind_it(size: int) -> None:
    value = {"text": "x" * size}
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [json_text.trimmed(orjson.dumps(value)) for _ in range(100)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept[0] == orjson.dumps(value)
    assert taken < 100 * (len(kept[0]) + 100) + 5_000
