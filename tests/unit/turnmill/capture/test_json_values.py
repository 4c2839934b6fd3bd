"""JSON with too many values is told before it is read; what texts hold counts for nothing."""

import json

import pytest

from turnmill.capture.reading import too_many_values
from turnmill.limits import JSON_VALUES


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * JSON_VALUES + b"[]]",
        b"[" * (JSON_VALUES + 1),
        b'{"messages":[' + b'{"":0},' * JSON_VALUES + b"0]}",
        b'"ab' * (8 * JSON_VALUES),
        b"[" + b'"\\\\",' * (JSON_VALUES + 1) + b"0]",
    ],
)
def test_too_many(data: bytes) -> None:
    assert too_many_values(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" + b"0," * (JSON_VALUES - 2) + b"0]",
        json.dumps({"model": "m", "messages": [{"content": 'a, [b], {c}: "d" \\ ' * JSON_VALUES}]}).encode(),
        json.dumps({"arguments": json.dumps([{"a": [1, "b"]}] * JSON_VALUES)}).encode(),
    ],
)
def test_not_too_many(data: bytes) -> None:
    assert not too_many_values(data)
