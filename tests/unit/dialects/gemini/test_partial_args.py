"""Pieces of arguments, put at their places."""

from typing import Any

import pytest

from pipeline.assembly.dialect import Violation
from pipeline.dialects.gemini.answer import MAX_INDEX, put


@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        ([("$.a", "stringValue", "Pa"), ("$.a", "stringValue", "ris")], {"a": "Paris"}),
        ([("$.a.b", "numberValue", 2.0), ("$.a.c", "boolValue", False)], {"a": {"b": 2, "c": False}}),
        ([("$.l[1].x", "nullValue", "NULL_VALUE")], {"l": [None, {"x": None}]}),
        ([("$['a b'][0]", "numberValue", 1.5)], {"a b": [1.5]}),
        ([("$.a", "stringValue", "x"), ("$.a.b", "stringValue", "y")], {"a": {"b": "y"}}),
        ([("$", "stringValue", "x"), ("$.a", "other", "x")], {}),
    ],
)
def test_values_at_their_places(pieces: list[tuple[str, str, Any]], args: dict[str, Any]) -> None:
    found: dict[str, Any] = {}
    for path, kind, value in pieces:
        put(found, {"jsonPath": path, kind: value})
    assert found == args


@pytest.mark.parametrize("path", [None, 5, "a", "$a", "$.a[x]", f"$.a[{MAX_INDEX}]", "$.a[99999999999999999999]"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    found: dict[str, Any] = {}
    with pytest.raises(Violation):
        put(found, {"jsonPath": path, "stringValue": "x"})
    assert found == {}
