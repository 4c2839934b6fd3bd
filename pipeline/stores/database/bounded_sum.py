"""A sum in SQL that can't overflow: producers choose the numbers of tokens and costs, and any number of rows is summed.

By itself SQLite refuses a sum over 2^63 - 1, and Postgres returns a number that is too large for a bigint column.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

MAX_INTEGER: Final = 2**63 - 1
HALF: Final = 2**32


class BoundedSum(FunctionElement[int]):
    """`BoundedSum(column)`: the sum of integers from 0, at most MAX_INTEGER; null where there is none."""

    name = "bounded_sum"
    type = BigInteger()
    inherit_cache = True


@compiles(BoundedSum, "postgresql")
def _postgres(element: BoundedSum, compiler: SQLCompiler, **options: Any) -> str:
    total = f"sum({compiler.process(element.clauses, **options)})"
    within = f"CASE WHEN {total} > {MAX_INTEGER} THEN {MAX_INTEGER} WHEN {total} < {-MAX_INTEGER} THEN {-MAX_INTEGER}"
    return f"CAST({within} ELSE {total} END AS BIGINT)"


@compiles(BoundedSum, "sqlite")
def _sqlite(element: BoundedSum, compiler: SQLCompiler, **options: Any) -> str:
    """Sum the upper and the lower halves of the numbers separately; SQLite computes equal sums only once."""
    value = f"({compiler.process(element.clauses, **options)})"
    upper, lower = f"sum({value} / {HALF})", f"sum({value} % {HALF})"
    exact = f"{upper} * {HALF} + {lower}"
    return f"(CASE WHEN {upper} + {lower} / {HALF} < {HALF // 2} THEN {exact} WHEN {upper} >= 0 THEN {MAX_INTEGER} END)"
