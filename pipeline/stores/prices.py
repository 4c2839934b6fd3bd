"""The cost of a response whose stream does not hold it: by the prices of the `genai-prices` package for its day.

A model or a provider that the package does not know has no price here, and none is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pipeline.turns.tokens import NANO

STREAM: Final = "stream"  # the price source of a cost that the stream carried
PRICED: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
LONGEST_NAME: Final = 200  # characters of a model's name; longer texts are not looked up


@cache
def source() -> str:
    """-> the price list in use, as `genai-prices 0.2.3`: a release holds the prices known on its day."""
    return f"genai-prices {version('genai-prices')}"


def cost_nano_usd(row: Mapping[str, Any]) -> int | None:
    """The cost of a usage row by its model, provider, counts and time, in 10⁻⁹ US dollars; None where it is unknown.

    `input_tokens` include the cached ones, as in ThreadProtocol; where fewer than those are given, they are added.
    """
    from genai_prices import Usage, calc_price  # noqa: PLC0415  # slow to import, and only the store needs it

    model, counts = row["model"], {name: row[name] for name in PRICED if row[name] is not None}
    if not model or len(model) > LONGEST_NAME or not counts.keys() & {"input_tokens", "output_tokens"}:
        return None
    cached = counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)
    if cached > counts.get("input_tokens", 0):
        counts["input_tokens"] = counts.get("input_tokens", 0) + cached
    try:
        on = datetime.fromtimestamp(row["at"] / 1000, UTC)
        found = calc_price(Usage(**counts), model, provider_id=row["provider"], genai_request_timestamp=on)
    except (LookupError, ValueError, OverflowError, OSError):  # unknown model, or impossible numbers and times
        return None
    cost = round(found.total_price * NANO)
    return cost if 0 <= cost < 2**53 else None
