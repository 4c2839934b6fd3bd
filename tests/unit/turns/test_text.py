from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.text import join, mend, mended


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([], ""),
        (["a", "", "b"], "ab"),
        (["\ud83d", "\ude00"], "😀"),
        (["x\ud83d"], "x\ufffd"),
        (["\ude00\ud83d"], "\ufffd\ufffd"),
        (["\ud83d", "y", "\ude00"], "\ufffdy\ufffd"),
        (["\0", "é"], "\0é"),
    ],
)
def test_join(chunks: list[str], text: str) -> None:
    assert join(chunks) == text


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 100))
def test_mended_text_is_text_wherever_it_was_cut(text: str, at: int) -> None:
    mend(text).encode()
    assert join([text[:at], text[at:]]) == mend(text)


@given(st.text())
def test_text_stays_as_it_is(text: str) -> None:
    assert mend(text) == text


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (2**64 - 1, 2**64 - 1),
        (2**64, str(2**64)),
        (-(2**63), -(2**63)),
        (-(2**63) - 1, str(-(2**63) - 1)),
        (True, True),
        (None, None),
        (1.5, 1.5),
        ({"\ud800": ["\udc00", {"a": 2**70}]}, {"\ufffd": ["\ufffd", {"a": str(2**70)}]}),
    ],
)
def test_mended(value: Any, kept: Any) -> None:
    assert mended(value) == kept
    assert orjson.loads(orjson.dumps(mended(value))) == kept
