"""Numbers as commands print them."""

import pytest

from pipeline.cli.output import dollars


@pytest.mark.parametrize(
    ("cost", "printed"),
    [(None, "–"), (0, "$0.0000"), (0.00004, "<$0.0001"), (0.00005, "$0.0001"), (1234.5, "$1,234.5000")],
)
def test_a_cost_is_never_shown_as_nothing(cost: float | None, printed: str) -> None:
    assert dollars(cost) == printed
