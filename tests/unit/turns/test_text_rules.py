from __future__ import annotations

import pytest

from pipeline.turns.text_rules import BUILT_IN, GROUPS, luhn

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


def test_long_texts_take_linear_time() -> None:
    """Not measured: each of these would not end with a pattern that backtracks."""
    beginnings = ("sk-", "a@", "4 ", "eyJ.", "bearer ", "a://", "secret_key= ", "-----BEGIN PRIVATE KEY-----")
    for hostile in (text * 50_000 for text in beginnings):
        for patterns in BUILT_IN.values():
            for pattern in patterns:
                pattern.apply(hostile)


def test_luhn() -> None:
    assert luhn("4111-1111 1111 1111")
    assert not luhn("4111111111111112")
