"""Snippets and scores of hits."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.search.query import parsed
from pipeline.stores.search.snippets import LENGTH, score_of, snippet_of
from pipeline.stores.search.write import MAX_CHARACTERS, row_words, tsvector
from pipeline.turns.searched_text import KINDS
from turnmill.errors import CallerError

SAID = KINDS[:1]


def turn(*texts: str) -> dict[str, object]:
    return {"parts": [{"part_kind": "user-prompt", "content": text} for text in texts]}


@pytest.mark.parametrize(
    ("text", "q", "snippet"),
    [
        ("Hello  <b>&\n'you'", "hello", "<mark>Hello</mark> &lt;b&gt;&amp; &#x27;you&#x27;"),
        ("a late fee, late", '"late fee"', "a <mark>late fee</mark>, late"),
        ("refunded", "refund*", "<mark>refunded</mark>"),
        ("今日の天気予報です", "天気", "今日の<mark>天気</mark>予報です"),
        ("今日の天気予報です", "天気予報", "今日の<mark>天気予報</mark>です"),
        ("CAFÉ \ud800", "cafe", "<mark>CAFÉ</mark> ?"),
        ("</mark><script>x", "script", "&lt;/mark&gt;&lt;<mark>script</mark>&gt;x"),
        ("nothing here", "else", "nothing here"),
    ],
)
def test_hits_are_marked_and_all_else_is_escaped(text: str, q: str, snippet: str) -> None:
    assert snippet_of(turn(text), parsed(q), SAID) == snippet


def test_the_piece_with_most_of_the_words_is_shown_around_its_first_hit() -> None:
    long = "x " * 200 + "late some fee " + "y " * 200
    snippet = snippet_of(turn("late alone", long), parsed("late fee"), SAID)
    assert "<mark>late</mark> some <mark>fee</mark>" in snippet
    assert snippet.startswith("…")
    assert snippet.endswith("…")
    assert len(re.sub("</?mark>", "", snippet)) <= LENGTH + 2


@given(st.text(), st.text(max_size=30))
def test_no_text_lets_html_in(text: str, q: str) -> None:
    try:
        terms = parsed(q)
    except CallerError:
        return
    snippet = snippet_of(turn(text), terms, SAID)
    snippet.encode()
    without = re.sub("<mark>(.*?)</mark>", r"\1", snippet, flags=re.DOTALL)
    assert "<" not in without
    assert ">" not in without
    assert html.escape(html.unescape(without)) == without


def test_a_turn_that_says_it_more_often_scores_higher() -> None:
    terms = parsed("late fee*")
    scores = [score_of(words, terms, SAID) for words in ("x y z", "late y z", "late fee z", "late fees late")]
    assert scores == sorted(scores)
    assert scores[0] == 0 < scores[1]
    assert score_of("late", terms, SAID) > score_of("late" + " x" * 100, terms, SAID)


def test_only_the_beginning_of_a_long_turn_is_searched() -> None:
    words = row_words(turn("a " * MAX_CHARACTERS, "late"), SAID)
    assert (len(words), set(words)) == (MAX_CHARACTERS // 2, {"a"})


def test_a_tsvector_has_the_places_of_words_and_none_of_borders() -> None:
    assert tsvector(["a", "b", "¶", "a"]) == "a:1 b:2 a:4"
