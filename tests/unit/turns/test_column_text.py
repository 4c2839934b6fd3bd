import pytest

from pipeline.turns.column_text import MAX_LENGTH, column_text, snippet


def test_what_a_column_refuses_is_escaped() -> None:
    assert column_text("a\0b\ud800c") == "a\\u0000b\\ud800c"
    assert column_text(None) is None
    assert column_text("Zürich 🦊") == "Zürich 🦊"


@pytest.mark.parametrize(
    "text", ["x\0", "x\udfff", "\\\0", "y" * 5000, "y" * 480 + "\0" * 10], ids=["nul", "half", "both", "long", "many"]
)
def test_two_texts_stay_different(text: str) -> None:
    """A name can't be written so that it becomes the key of another one, however often it is escaped."""
    keys: list[str | None] = [text]
    for _ in range(4):
        keys.append(column_text(keys[-1]))
    assert len({column_text(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("text", [r"C:\users\new", r"\u00e4", r"\d+\.u", "\\", r"\u005", r"\ud7ff"])
def test_other_backslashes_stay(text: str) -> None:
    assert column_text(text) == text


def test_long_names_are_cut_and_stay_different() -> None:
    one, other = column_text("x" * 5000 + "1"), column_text("x" * 5000 + "2")
    assert one is not None
    assert one != other
    assert len(one) <= MAX_LENGTH
    assert column_text("y" * MAX_LENGTH) == "y" * MAX_LENGTH


def test_a_snippet_is_one_line() -> None:
    assert snippet("  What\n is\tthe weather? ") == "What is the weather?"
    assert snippet("word " * 100, 20) == "word word word word…"
