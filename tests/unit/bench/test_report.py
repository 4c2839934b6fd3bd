"""Medians and ratios of the benchmark's table."""

from __future__ import annotations

from pipeline.bench.loads import LOADS
from pipeline.bench.suite import Result


def test_ratios_are_formed_within_a_repetition() -> None:
    result = Result(LOADS["text-1"], {"turns": [100.0, 40.0, 90.0], "raw": [200.0, 100.0, 300.0]})
    assert result.rate("turns") == 90.0
    assert result.ratio("turns", "raw") == 0.4  # of 0.5, 0.4, 0.3
