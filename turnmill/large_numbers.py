"""Numbers of JSON that are no double, as 1e400: JavaScript reads Infinity, which no JSON can hold again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

SUSPECT: Final = re.compile(r"\d[eE]\+?\d{3}|\d{309}")


def parse_float(text: str) -> Callable[[str], float | str] | None:
    """Return a reader of numbers that leaves the digits of those beyond a double a text; None where none can be."""
    return _float_or_digits if SUSPECT.search(text) else None


def _float_or_digits(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits
