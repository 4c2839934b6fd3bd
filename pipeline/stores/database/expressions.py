"""Expressions that SQLAlchemy lacks: sums that can't overflow, and a condition that columns have any of several values.

`BoundedSum(column)`: producers choose the numbers of tokens and costs, and any number of rows is summed. By itself
SQLite refuses a sum over 2^63 - 1, and Postgres returns a number that is too large for a bigint column.

`row_one_of(columns, rows)`: the columns have the values of any of these rows; the same statement for any number of
rows, as they are an array for each column on Postgres, a JSON list on SQLite. Both databases look them up by an index.
For `IN (VALUES …)` with several rows SQLite 3.40 reads the whole table, and Postgres plans each row.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Integer,
    LargeBinary,
    Text,
    and_,
    bindparam,
    func,
    select,
)
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

AS_ARRAYS: Final = (BigInteger, Boolean, Integer, LargeBinary)  # Postgres gets values of other types as text


def array_of(kind: TypeEngine[Any]) -> ARRAY[Any]:
    """Return the type of Postgres' array of a column's values."""
    return ARRAY(kind if isinstance(kind, AS_ARRAYS) else Text())


class RowOneOf(FunctionElement[Any]):
    """A condition, in the words of each database: of Postgres, then of SQLite."""

    name = "row_one_of"
    inherit_cache = True


def row_one_of(columns: Sequence[ColumnElement[Any]], rows: Sequence[Sequence[Any]]) -> ColumnElement[bool]:
    """Return the condition that the columns have the values of any of these rows, in their order."""
    if len(rows) == 1:
        return and_(*(column == value for column, value in zip(columns, rows[0], strict=True)))
    kinds: list[TypeEngine[Any]] = [JSON(), *(array_of(column.type) for column in columns)]
    values = given(columns, rows).values()
    return _row_matches(columns, [bindparam(None, value, kind) for value, kind in zip(values, kinds, strict=True)])


def row_matches_given(columns: Sequence[ColumnElement[Any]]) -> RowOneOf:
    """Return the same condition for a statement that is built once: it takes `given` rows as its parameters."""
    kinds: list[TypeEngine[Any]] = [JSON(), *(array_of(column.type) for column in columns)]
    return _row_matches(columns, [bindparam(f"given_{number}", type_=kind) for number, kind in enumerate(kinds)])


def given(columns: Sequence[ColumnElement[Any]], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the parameters of `row_matches_given`: the rows, then the values of each column."""
    values = ([row[number] for row in rows] for number in range(len(columns)))
    return {f"given_{number}": value for number, value in enumerate(([*map(list, rows)], *values))}


def _row_matches(columns: Sequence[ColumnElement[Any]], parameters: Sequence[BindParameter[Any]]) -> RowOneOf:
    rows, *arrays = parameters
    each = func.json_each(rows).table_valued("value")
    values = select(*(func.json_extract(each.c.value, f"$[{index}]") for index in range(len(columns))))
    given = func.unnest(*arrays).table_valued(*(column.name for column in columns)).render_derived("given")
    return RowOneOf(row_of(*columns).in_(select(given)), row_of(*columns).in_(values))


@compiles(RowOneOf, "postgresql")
def _row_postgres(element: RowOneOf, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses.clauses[0], **options)


@compiles(RowOneOf, "sqlite")
def _row_sqlite(element: RowOneOf, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses.clauses[1], **options)


MAX_INTEGER: Final = 2**63 - 1
HALF: Final = 2**32


class BoundedSum(FunctionElement[int]):
    """`BoundedSum(column)`: the sum of integers from 0, at most MAX_INTEGER; null where there is none."""

    name = "bounded_sum"
    type = BigInteger()
    inherit_cache = True


@compiles(BoundedSum, "postgresql")
def _sum_on_postgres(element: BoundedSum, compiler: SQLCompiler, **options: Any) -> str:
    total = f"sum({compiler.process(element.clauses, **options)})"
    within = f"CASE WHEN {total} > {MAX_INTEGER} THEN {MAX_INTEGER} WHEN {total} < {-MAX_INTEGER} THEN {-MAX_INTEGER}"
    return f"CAST({within} ELSE {total} END AS BIGINT)"


@compiles(BoundedSum, "sqlite")
def _sum_on_sqlite(element: BoundedSum, compiler: SQLCompiler, **options: Any) -> str:
    """Sum the upper and the lower halves of the numbers separately; SQLite computes equal sums only once."""
    value = f"({compiler.process(element.clauses, **options)})"
    upper, lower = f"sum({value} / {HALF})", f"sum({value} % {HALF})"
    exact = f"{upper} * {HALF} + {lower}"
    return f"(CASE WHEN {upper} + {lower} / {HALF} < {HALF // 2} THEN {exact} WHEN {upper} >= 0 THEN {MAX_INTEGER} END)"
