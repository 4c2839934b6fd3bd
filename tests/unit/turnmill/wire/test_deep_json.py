"""JSON at any depth, and what is said of text that is none: against the standard library, which both should be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill.wire import deep_json
from turnmill.wire.deep_json import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)
DECODER = json.JSONDecoder()
DEPTH = 50_000


def read(text: str) -> Any:
    return deep_json._read(text, DECODER)


def spaced(value: Any, indent: int | None) -> str:
    return f" {json.dumps(value, indent=indent, ensure_ascii=False)}\n"


@given(VALUES, st.sampled_from([None, 0, 2]))
def test_reads_and_writes_what_the_standard_library_does(value: Any, indent: int | None) -> None:
    assert repr(read(spaced(value, indent))) == repr(value)
    assert "".join(deep_json._written(value)) == json.dumps(value, separators=(",", ":"))


@given(VALUES, st.data())
def test_refuses_what_it_refuses(value: Any, data: st.DataObject) -> None:
    text = spaced(value, 1)
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from(["", ",", ":", "]", "}", "[", "{", '"', "1", "x", "\x0b", "\ufeff"]))
    text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    try:
        there = repr(json.loads(text))
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            read(text)
    else:
        assert repr(read(text)) == there


@pytest.mark.parametrize(
    ("text", "said", "line", "column"),
    [
        ("[1,]", "Expecting value", 1, 4),  # as Python 3.11 says it; 3.13 has other words, and the comma's place
        ('{"a": 1,}', "Expecting property name enclosed in double quotes", 1, 9),
        ('{"a" 1}', "Expecting ':' delimiter", 1, 6),
        ("[1\n 2]", "Expecting ',' delimiter", 2, 2),
        ("{} {}", "Extra data", 1, 4),
        ("[oops]", "Expecting value", 1, 2),
        ("", "Expecting value", 1, 1),
        ("[", "Expecting value", 1, 2),
        ("{", "Expecting property name enclosed in double quotes", 1, 2),
    ],
)
def test_the_same_words_on_every_python(text: str, said: str, line: int, column: int) -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        loads(text)
    assert (raised.value.msg, raised.value.lineno, raised.value.colno) == (said, line, column)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[0,{"é":', "},null]")])
def test_any_depth(opening: str, closing: str) -> None:
    value = loads(opening * DEPTH + "1" + closing * DEPTH)
    text = dumps(value)
    assert json.loads(f'["{opening[:1]}"]')  # the interpreter is as it was
    assert text == (opening * DEPTH + "1" + closing * DEPTH).replace("é", "\\u00e9")
    while value != 1:  # taken apart level by level: to free it at once would go as deep
        value = next(iter(value.values())) if isinstance(value, dict) else value[1 if len(value) == 3 else 0]


def test_bytes_surrogates_and_numbers_of_one_s_own() -> None:
    assert loads(b'["\\ud800", 1.5]', parse_float=lambda text: f"~{text}") == ["\ud800", "~1.5"]
    deep = b"[" * DEPTH + b"NaN" + b"]" * DEPTH
    with pytest.raises(ValueError, match="NaN is none"):
        loads(deep, parse_constant=lambda name: _refuse(f"{name} is none"))


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="Circular"):
        dumps(value)
    with pytest.raises(TypeError):
        dumps([object()])


def _refuse(text: str) -> Any:
    raise ValueError(text)
