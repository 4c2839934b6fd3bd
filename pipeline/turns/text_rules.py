"""Rules that find and replace texts: patterns, and built-in rules by name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Pattern:
    r"""A regular expression and what its matches become (`\1` is a group).

    `hints`: a text without any of them has no match. `valid`: whether a match is to be replaced.
    """

    regex: re.Pattern[str]
    replace: str
    hints: tuple[str, ...] = ()
    valid: Callable[[str], bool] = field(default=lambda text: True)

    def apply(self, text: str) -> tuple[str, int]:
        """Return the text, and the number of replaced matches."""
        if self.hints and not any(hint in text for hint in self.hints):
            return text, 0
        count = 0

        def replacement(match: re.Match[str]) -> str:
            nonlocal count
            if not self.valid(match[0]):
                return match[0]
            count += 1
            return match.expand(self.replace) if "\\" in self.replace else self.replace

        return self.regex.sub(replacement, text), count


def luhn(text: str) -> bool:
    """Return True if the digits of a text end in the check digit of payment cards."""
    digits = [int(character) for character in reversed(text) if character.isdecimal()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])
    return (sum(digits[0::2]) + sum(doubled)) % 10 == 0


def _pattern(regex: str, replace: str, *hints: str, valid: Callable[[str], bool] = lambda text: True) -> Pattern:
    return Pattern(re.compile(regex, re.ASCII), replace, hints, valid)


BUILT_IN: Final[Mapping[str, tuple[Pattern, ...]]] = {
    "api-key": (
        _pattern(r"\bsk-[A-Za-z0-9_-]{20,250}", "[api-key]", "sk-"),  # OpenAI, Anthropic, OpenRouter, DeepSeek
        _pattern(r"\bAIza[A-Za-z0-9_-]{35}", "[api-key]", "AIza"),  # Google
        _pattern(
            r"\b(?:xai-|gsk_|hf_|r8_|pplx-)[A-Za-z0-9]{30,250}", "[api-key]", "xai-", "gsk_", "hf_", "r8_", "pplx-"
        ),
        _pattern(r"\b(?:gh[oprsu]_[A-Za-z0-9]{36,250}|github_pat_[A-Za-z0-9_]{22,250})", "[api-key]", "gh", "github_"),
        _pattern(r"\bglpat-[A-Za-z0-9_-]{20,250}", "[api-key]", "glpat-"),
        _pattern(r"\b(?:xox[abeoprs]-|xapp-)[A-Za-z0-9-]{10,250}", "[api-key]", "xox", "xapp-"),  # Slack
        _pattern(r"\b[prs]k_(?:live|test)_[A-Za-z0-9]{16,250}", "[api-key]", "_live_", "_test_"),  # Stripe
        _pattern(r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,250})", "[api-key]", "npm_", "pypi-"),
    ),
    "aws-key": (
        _pattern(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b", "[aws-key]", "AKIA", "ASIA"),
        _pattern(
            r"(?i)(secret_?(?:access_?)?key['\"]?\s{0,4}[:=]\s{0,4}['\"]?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
            r"\1[aws-key]",
            *("secret", "Secret", "SECRET"),
        ),
    ),
    "private-key": (
        _pattern(
            r"(?s)-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            "[private-key]",
            "PRIVATE KEY",
        ),
    ),
    "bearer-token": (
        _pattern(r"(?i)\b(bearer\s{1,4})(?=\S{0,4000}?\d)[A-Za-z0-9._~+/=-]{20,8000}", r"\1[bearer-token]"),
    ),
    "jwt": (
        # It is tried once in each word, at the first `eyJ`, and no part can be read in two ways.
        _pattern(
            r"(?<![A-Za-z0-9_-])((?>[A-Za-z0-9_-]*?(?=\beyJ)))"
            r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+",
            r"\1[jwt]",
            "eyJ",
        ),
    ),
    "url-password": (
        _pattern(r"(?i)\b([a-z][a-z0-9+.-]{1,30}://[^\s:/@]{0,250}:)[^\s/@]{1,250}+@", r"\1[url-password]@", "://"),
    ),
    "email": (
        _pattern(
            r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
            "[email]",
            "@",
        ),
    ),
    "credit-card": (_pattern(r"(?<![\d.])[2-6](?:[ -]?\d){12,18}(?!\d)", "[credit-card]", valid=luhn),),
}
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "secrets": ("api-key", "aws-key", "private-key", "bearer-token", "jwt", "url-password")
}
