"""Numbers in messages for JavaScript's SDKs."""

from typing import Any

from pipeline.dialects.exports import readable


def test_what_javascript_would_read_as_infinity_is_text() -> None:
    kept = [2**1024 - 2**971, -(2**1024 - 2**971), True, 1.5, None, "x"]  # the largest doubles
    assert readable({"a": [2**1024, *kept]}) == {"a": [str(2**1024), *kept]}
    assert readable([10**400, {"b": -(10**400)}]) == [str(10**400), {"b": str(-(10**400))}]


def test_smaller_integers_stay_exact() -> None:
    assert readable(12345678901234567890) == 12345678901234567890


def test_values_may_be_deep() -> None:
    deep: Any = 10**400
    for _ in range(4000):
        deep = [deep]
    found = readable(deep)
    for _ in range(4000):
        (found,) = found
    assert found == str(10**400)
