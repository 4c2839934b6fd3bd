import re
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from pipeline.turns.text_rules import BUILT_IN, GROUPS, Pattern, luhn

SK = "sk-proj-" + "aB3_" * 10
CASES = [
    ("api-key", f"key {SK}.", "key [api-key]."),
    ("api-key", "AIza" + "Sy" + "x-" * 16 + "z done", "[api-key] done"),
    ("api-key", "token=ghp_" + "a1" * 18, "token=[api-key]"),
    ("api-key", "xoxb-12345678901-abcdefghij", "[api-key]"),
    ("api-key", "sk_live_" + "a1B2" * 6, "[api-key]"),
    ("api-key", "hf_" + "aB" * 17, "[api-key]"),
    ("api-key", "desk-chair, task-force-of-many-different-people", None),
    ("aws-key", "AKIAIOSFODNN7EXAMPLE", "[aws-key]"),
    ("aws-key", f'"aws_secret_access_key": "{"wJalrXUt" * 5}"', '"aws_secret_access_key": "[aws-key]"'),
    ("aws-key", "AKIA, and MAKIAIOSFODNN7EXAMPLE", None),
    (
        "private-key",
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nabc=\n-----END RSA PRIVATE KEY-----\nb",
        "a\n[private-key]\nb",
    ),
    ("private-key", "-----BEGIN PRIVATE KEY-----\nMIIEvQ", "[private-key]"),
    ("private-key", "-----BEGIN PUBLIC KEY----- PRIVATE KEY", None),
    ("bearer-token", "Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer [bearer-token]"),
    ("bearer-token", "the bearer responsibilities-of-the-owner", None),
    ("jwt", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF", "[jwt]"),
    ("jwt", "jwt=key-eyJ-eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF.x", "jwt=key-[jwt].x"),
    ("jwt", "a.eyJhbGciOiJI.eyJzdWIiOiIx." + "x" * 20_000, "a.[jwt]"),
    ("jwt", "heyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF eyJ.eyJ.eyJ", None),
    ("url-password", "postgresql://me:s3cret@db:5432/x", "postgresql://me:[url-password]@db:5432/x"),
    ("url-password", "https://example.org:8080/a@b", None),
    ("email", "to ann.o'neil@mail.example.co.uk, please", "to ann.o'[email], please"),
    ("email", "a @ b, x@localhost", None),
    ("credit-card", "pay 4111 1111 1111 1111 now", "pay [credit-card] now"),
    ("credit-card", "5555-5555-5555-4444", "[credit-card]"),
    ("credit-card", "4111111111111112, 1768928342002, 41111111111111111111111", None),
]


@pytest.mark.parametrize(("name", "text", "redacted"), CASES)
def test_built_in_patterns(name: str, text: str, redacted: str | None) -> None:
    count = 0
    found = text
    for pattern in BUILT_IN[name]:
        found, more = pattern.apply(found)
        count += more
    assert found == (text if redacted is None else redacted)
    assert (count > 0) is (redacted is not None)


def test_every_group_and_hint_is_true() -> None:
    assert {name for names in GROUPS.values() for name in names} <= BUILT_IN.keys()
    assert {case[0] for case in CASES} == BUILT_IN.keys()


def pieces(items: Any) -> Iterator[str]:
    """Texts that parts of a pattern read: what a hostile text is built of."""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL":
            yield chr(value)
        elif name == "IN":
            yield from (chr(one[1]) if str(one[0]) == "LITERAL" else chr(one[1][0]) for one in value
                        if str(one[0]) in ("LITERAL", "RANGE"))  # fmt: skip
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield "".join(pieces(value[2]))[:1] * max(1, value[0])
            yield from pieces(value[2])
        elif name == "SUBPATTERN":
            yield "".join(pieces(value[3]))
            yield from pieces(value[3])
        elif name == "BRANCH":
            yield from ("".join(pieces(branch)) for branch in value[1])
        elif name == "ATOMIC_GROUP":
            yield from pieces(value)


def hostile(pattern: Pattern) -> Iterator[str]:
    """What is repeated: each piece, pairs of them, and everything that leads to a match, without its end."""
    found = list(dict.fromkeys(pieces(re._parser.parse(pattern.regex.pattern))))  # type: ignore[attr-defined]
    whole = [case[1] for case in CASES if pattern.regex.search(case[1])]
    begins = [text[:cut] for text in whole for cut in (3, 4, 8, len(text) // 2, len(text) - 1)]
    yield from dict.fromkeys(
        [*found, *begins, *(f"-{one}" for one in begins), *map("".join, product(found[:9], repeat=2))]
    )


def seconds(pattern: Pattern, text: str) -> float:
    """CPU time of this thread, the least of some attempts."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        pattern.apply(text)
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_text_takes_more_than_linear_time(name: str) -> None:
    """Eight times the text may take 8 times as long, and 64 times with a pattern that backtracks over all of it."""
    short, factor = 2_000, 8
    for pattern in BUILT_IN[name]:
        for one in filter(None, hostile(pattern)):
            text = (one * (factor * short // len(one) + 1))[: factor * short]
            long_one = seconds(pattern, text)
            if long_one > 0.002:  # below, the clock decides
                assert long_one < 3 * factor * seconds(pattern, text[:short]), f"{pattern.regex.pattern} on {one!r} …"


def test_luhn() -> None:
    assert luhn("4111-1111 1111 1111")
    assert not luhn("4111111111111112")
