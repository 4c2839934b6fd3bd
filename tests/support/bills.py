"""What an assembled run is billed: its usage rows, and their sums."""

from typing import Any

from pipeline.stores.costs.rows import usage_rows
from tests.support.assembled import Assembled


def bill(got: Assembled) -> list[dict[str, Any]]:
    """Return the usage rows of a run."""
    return [row for record in got.records for row in usage_rows(record)]


def billed(got: Assembled, *names: str) -> tuple[int | None, ...]:
    """Return the sums of these columns over the run's rows; None where no row has one."""
    rows = bill(got)
    known = [[row[name] for row in rows if row[name] is not None] for name in names]
    return tuple(sum(values) if values else None for values in known)
