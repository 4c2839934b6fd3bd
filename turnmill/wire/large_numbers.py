"""Numbers in JSON beyond the range of a double, such as 1e400: JavaScript reads Infinity, which JSON can't express."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

SUSPECT: Final = re.compile(r"\d[eE]\+?\d{3}|\d{309}")


def parse_float(text: str) -> Callable[[str], float | str] | None:
    """Return a number parser that keeps numbers beyond a double as text; None if the text can't have one."""
    return _float_or_digits if SUSPECT.search(text) else None


def _float_or_digits(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits
