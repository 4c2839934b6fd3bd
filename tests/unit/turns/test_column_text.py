from __future__ import annotations

from pipeline.turns.column_text import MAX_LENGTH, column_text, snippet


def test_what_a_column_refuses_is_escaped() -> None:
    assert column_text("a\0b\ud800c") == "a\\u0000b\\ud800c"
    assert column_text(None) is None
    assert column_text("Zürich 🦊") == "Zürich 🦊"


def test_long_names_are_cut_and_stay_different() -> None:
    one, other = column_text("x" * 5000 + "1"), column_text("x" * 5000 + "2")
    assert one is not None
    assert one != other
    assert len(one) <= MAX_LENGTH
    assert column_text("y" * MAX_LENGTH) == "y" * MAX_LENGTH


def test_a_snippet_is_one_line() -> None:
    assert snippet("  What\n is\tthe weather? ") == "What is the weather?"
    assert snippet("word " * 100, 20) == "word word word word…"
