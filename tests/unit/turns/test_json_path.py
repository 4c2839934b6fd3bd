from typing import Any

import pytest

from pipeline.turns.path_rules import parse

VALUE = {"a": [{"b": 1, "c d": 2}, {"b": 3}], "b": {"b": 4, "x": {"b": [5]}}, "it's": 6}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a[*].b", [("a", 0, "b"), ("a", 1, "b")]),
        ("$.a[0]['c d']", [("a", 0, "c d")]),
        ('$["a"][-1].b', [("a", 1, "b")]),
        ("$.a[9].b", []),
        ("$.b.*", [("b", "b"), ("b", "x")]),
        ("$..x.b", [("b", "x", "b")]),
        ("$..['b']", [("a", 0, "b"), ("a", 1, "b"), ("b",), ("b", "b"), ("b", "x", "b")]),
        ("$.b..b", [("b", "b"), ("b", "x", "b")]),
        ("$['it\\'s']", [("it's",)]),
        ("$.none.b", []),
    ],
)
def test_places(path: str, found: list[tuple[Any, ...]]) -> None:
    seen = []

    def look(place: tuple[Any, ...], value: Any) -> Any:
        seen.append(place)
        return value

    assert parse(path).replaced(VALUE, look) is VALUE
    assert sorted(seen, key=str) == sorted(found, key=str)


def test_what_is_replaced_is_a_copy() -> None:
    changed = parse("$.a[*].b").replaced(VALUE, lambda place, value: "gone")
    assert changed["a"] == [{"b": "gone", "c d": 2}, {"b": "gone"}]
    assert VALUE["a"][0]["b"] == 1
    assert changed["b"] is VALUE["b"]


@pytest.mark.parametrize("path", ["", "a.b", "$", "$.", "$.a[", "$.a[1:2]", "$.a[?(@.b)]", "$a", "$..", "$.a b"])
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"begins with|can't be read|below the root"):
        parse(path)
