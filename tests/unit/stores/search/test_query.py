"""What callers ask for -> the queries of both databases."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.search.query import Term, fts5, parsed, tsquery
from pipeline.turns.searched_text import KINDS
from turnmill.errors import CallerError
from turnmill.limits import SEARCH_TERMS


@pytest.mark.parametrize(
    ("q", "wanted", "unwanted"),
    [
        ("Hello", [Term(("hello",))], []),
        ("a b a", [Term(("a",)), Term(("b",))], []),
        ('"late fee" x', [Term(("late", "fee")), Term(("x",))], []),
        ('"late fee', [Term(("late", "fee"))], []),
        ("refund*", [Term(("refund",), prefix=True)], []),
        ('"late fe"*', [Term(("late", "fe"), prefix=True)], []),
        ("x -draft", [Term(("x",))], [Term(("draft",))]),
        ('x -"two words"', [Term(("x",))], [Term(("two", "words"))]),
        ("x -dra*", [Term(("x",))], [Term(("dra",), prefix=True)]),
        ("foo-bar", [Term(("foo", "bar"))], []),
        ("a - b", [Term(("a",)), Term(("b",))], []),
        ("天気", [Term(("天気",), prefix=True)], []),
        ("a OR b", [Term(("a",)), Term(("or",)), Term(("b",))], []),
        ("text:x", [Term(("text", "x"))], []),
    ],
)
def test_words_phrases_prefixes_and_exclusions(q: str, wanted: list[Term], unwanted: list[Term]) -> None:
    terms = parsed(q)
    assert (list(terms.wanted), list(terms.unwanted)) == (wanted, unwanted)


@pytest.mark.parametrize(
    "q",
    [
        "",
        " ",
        "-x",
        '-"a b"',
        "…",
        "***",
        "a*",
        "x" * 501,
        " ".join(f"w{n}" for n in range(SEARCH_TERMS + 1)),
        "天" * 100,
    ],
)
def test_what_has_nothing_to_find_or_is_too_much_is_refused(q: str) -> None:
    with pytest.raises(CallerError, match=r"^q"):
        parsed(q)


def test_both_databases_are_asked_the_same() -> None:
    terms = parsed('hello "late fe"* -draft')
    assert fts5(terms, KINDS[:1], ["§t1"]) == '("§t1" AND ("hello") AND ("late fe" *)) NOT (("draft"))'
    assert tsquery(terms, KINDS[:1], ["§t1"]) == "'§t1' & (('hello')) & (('late' <-> 'fe':*)) & !(('draft'))"
    assert fts5(parsed("x"), KINDS, ()) == '("x" OR "‹x" OR "›x")'
    assert tsquery(parsed("x"), KINDS, ()) == "(('x') | ('‹x') | ('›x'))"


@given(st.text(max_size=60) | st.text(alphabet="ab*-\"天é ().:&|!'\\", max_size=60))
def test_any_query_is_refused_or_understood_by_sqlite(q: str) -> None:
    try:
        terms = parsed(q)
    except CallerError:
        return
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(words, tokenize='ascii')")
        found = connection.execute("SELECT rowid FROM t WHERE t MATCH ?", [fts5(terms, KINDS, ["§t"])])
        assert found.fetchall() == []
