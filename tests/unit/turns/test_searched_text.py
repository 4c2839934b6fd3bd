"""What of a turn is searched; which words a text has, and by which it is looked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.searched_text import GRAM, MAX_CHARACTERS, asked, places, spoken, words


def response(*parts: Any) -> dict[str, Any]:
    return {"turn_type": "agent", "messages": [{"message_type": "response", "parts": list(parts)}]}


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (None, []),
        ({"parts": [{"part_kind": "user-prompt", "content": "hi"}]}, [("said", "hi")]),
        (
            {"parts": [{"part_kind": "user-prompt", "content": ["a", {"kind": "image-url", "url": "u"}, 7]}]},
            [("said", "a")],
        ),
        (response({"part_kind": "text", "content": "yes"}), [("said", "yes")]),
        (response({"part_kind": "thinking", "content": "hm"}), [("thinking", "hm")]),
        (response({"part_kind": "thinking", "content": None}), []),
        (response({"part_kind": "tool-call", "tool_name": "find", "args": {"q": "secret"}}), [("said", "find")]),
        (
            response({"part_kind": "tool-return", "tool_name": "find", "content": {"a": ["x", 4, None, True]}}),
            [("results", "x\n4")],
        ),
        (response({"part_kind": "tool-return", "tool_name": "find", "content_ref": {"uri": "u"}}), []),
        (response({"part_kind": "text", "content": "", "meta:refs": {"content": {"uri": "u"}}}), [("said", "")]),
        (response({"part_kind": "file", "content": {"data": "aGk="}}, "junk", {"part_kind": ["x"]}), []),
        ({"parts": "x", "messages": [7, {"parts": None}]}, []),
    ],
)
def test_said_thought_and_given_back(turn: Any, expected: list[tuple[str, str]]) -> None:
    assert list(spoken(turn)) == expected


def test_a_result_is_looked_into_only_so_deep() -> None:
    value: Any = "deep"
    for _ in range(5000):
        value = [value]
    assert list(spoken(response({"part_kind": "tool-return", "content": value}))) == [("results", "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World-wide 42!", ["hello", "world", "wide", "42"]),
        ("snake_case.dotted/path", ["snake", "case", "dotted", "path"]),
        ("Éric’s CAFÉ Straße", ["eric", "s", "cafe", "strasse"]),
        ("e\u0301te\u0301", ["ete"]),
        ("天気予報", ["天気予", "気予報", "予報", "報"]),
        ("iPhone手机x", ["iphone", "手机", "机", "x"]),
        ("ｶﾞｽ", ["ガス", "ス"]),
        ("ไป", ["ไป", "ป"]),
        ("한국어 말", ["한국어", "말"]),
        ("हिन्दी", ["हिन्दी"]),
        ("привет Ёлка", ["привет", "елка"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ("x" * 100, ["x" * MAX_CHARACTERS]),
        ("", []),
        ("… — !", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Foo.bar", [("foo", False), ("bar", False)]),
        ("天", [("天", True)]),
        ("天気", [("天気", True)]),
        ("天気予", [("天気予", False)]),
        ("天気予報", [("天気予", False), ("気予報", False)]),
        ("天気x", [("天気", False), ("気", False), ("x", False)]),
        ("x天", [("x", False), ("天", True)]),
    ],
)
def test_a_run_without_spaces_is_looked_for_by_what_stands_before_its_end(
    text: str, expected: list[tuple[str, bool]]
) -> None:
    assert asked(text) == expected


@given(st.text())
def test_places_are_those_of_the_same_words(text: str) -> None:
    found = list(places(text))
    assert [word for _, _, word in found] == words(text)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)


@given(st.text())
def test_words_can_be_stored_and_are_stable(text: str) -> None:
    for word in words(text):
        assert word
        assert len(word) <= MAX_CHARACTERS
        assert not set(word) & set("\0'\"\\ ¶§‹›*")
        word.encode()


@given(st.text(alphabet="天気予報のเมือง", min_size=1, max_size=12), st.data())
def test_every_piece_of_a_run_is_found_in_it(text: str, data: st.DataObject) -> None:
    held = words(text)
    start = data.draw(st.integers(0, len(text) - 1))
    piece = text[start : data.draw(st.integers(start + 1, len(text)))]
    wanted = asked(piece)
    assert any(
        all(
            held[at + n].startswith(word) if prefix else held[at + n] == word
            for n, (word, prefix) in enumerate(wanted)
            if at + n < len(held)
        )
        and at + len(wanted) <= len(held)
        for at in range(len(held))
    )
    assert len(wanted) == max(1, len(piece) - GRAM + 1)
