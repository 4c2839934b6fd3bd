"""Patterns that take exponential time, and those that only look like it."""

import pytest

from pipeline.turns.ambiguity import ambiguous
from pipeline.turns.text_rules import BUILT_IN

PHONE = r"(\+41)[0-9 ]{9,13}"


@pytest.mark.parametrize(
    "regex",
    [
        r"(a+)+",
        r"(a|a)*",
        r"(?:a|ab?)*b?c",
        r"(\w+\s?)*!",
        r"(.*,)*x",
        r"(a*)*b",
        r"(x(?:a?|b?))*",
        r"(?:a{1,64}){1,64}",
        r"(a+){3}",
        r"(?:\w+\.?)+@",
        r"(?i:(k1|K1)*)z",
        r"x(?=(a+)+y)",
        r"(?>(a+)+b)",
        r"((a)|b|\2)*c",
    ],
)
def test_what_would_take_years(regex: str) -> None:
    assert ambiguous(regex)


@pytest.mark.parametrize(
    "regex",
    [
        r"ORD-[0-9]{6}",
        PHONE,
        r"(?:\w+\.)+com",
        r"(?:\d{1,3}\.){3}\d{1,3}",
        r"(?:\d{2,4} ?){3}",
        r"(?:a++)*b",
        r"(?:a*b?)++c",
        r"\b(?:foo|bar)+\b",
        r"(?i)[a-z]+://[^\s]+",
        r"(?s)BEGIN.*?END",
        r"\"(?:[^\"\\]|\\.)*\"",
        r"(?:[ -]?\d){12,18}",
        r"(\w)\1+",
        r"(a)?(?(1)b|c)+",
    ],
)
def test_what_may_be_used(regex: str) -> None:
    assert not ambiguous(regex)


def test_what_comes_with_turnmill_may_be_used() -> None:
    assert not [one.regex.pattern for patterns in BUILT_IN.values() for one in patterns if ambiguous(one.regex.pattern)]
