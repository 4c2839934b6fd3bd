"""`one_of(column, texts)`: whether a column has one of these texts; the same statement for any number of texts.

The texts are one parameter: an array on Postgres, a JSON list on SQLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, JSON, BindParameter, ColumnElement, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine


class Texts(TypeDecorator[Sequence[str]]):
    """A list of texts."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type that the database takes."""
        return dialect.type_descriptor(ARRAY(Text()) if dialect.name == "postgresql" else JSON())


class OneOf(FunctionElement[Any]):
    """A condition; it has no type, since SQLite would compare a boolean with 1, and then use no index."""

    name = "one_of"
    inherit_cache = True


def one_of(column: ColumnElement[Any], texts: Sequence[str]) -> OneOf:
    """Return the condition that the column has one of these texts."""
    given: BindParameter[Any] = bindparam(None, list(texts), type_=Texts())
    return OneOf(column, given)


@compiles(OneOf, "postgresql")
def _postgres(element: OneOf, compiler: SQLCompiler, **options: Any) -> str:
    column, texts = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} = ANY ({texts})"


@compiles(OneOf, "sqlite")
def _sqlite(element: OneOf, compiler: SQLCompiler, **options: Any) -> str:
    column, texts = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608  # the compiler's own text
