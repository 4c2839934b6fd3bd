"""How rows name a thread: by the text of its key, or, in rows of an older version, by its id alone. Pure.

A version that knew ids only wrote `ID`, and the tenant in a column of its own, so that one thread of its rows may hold
the turns of several tenants. Such rows are read where they are until `ThreadStore.move_older` has moved them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, Text, and_, func, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

USUAL: Final = 200  # characters of a key
NO_TENANT = ""  # what a caller gives who means the threads without a tenant; None means any


def key_of(record: TurnRecord) -> ThreadKey:
    """Whose record it is."""
    return ThreadKey.of(record["thread_id"], record.get("tenant"))


def key_text(key: ThreadKey) -> str:
    """What the columns hold."""
    thread_id, tenant = key
    size = len(thread_id) if tenant is None else len(thread_id) + len(str(tenant))
    return _remembered(thread_id, tenant) if size <= USUAL else _text(thread_id, tenant)


@lru_cache(maxsize=4_096, typed=True)  # a foreign record's tenant may be any JSON
def _remembered(thread_id: str, tenant: str | None) -> str:
    """A batch asks for the text of each of its keys several times."""
    return _text(thread_id, tenant)


def _text(thread_id: str, tenant: str | None) -> str:
    return column_text(ThreadKey(thread_id, tenant).text) or ""


def older_text(key: ThreadKey) -> str:
    """What an older version wrote for it, and for any other tenant's thread with this id."""
    return key_text(key if key.tenant is None else ThreadKey(key.thread_id))


def newer_text(text: str, tenant: str | None) -> str:
    """What the columns would hold, had this version written the row with these two columns."""
    return f"{text}/{tenant}" if tenant and "/" not in text else text


def exact(text: str) -> ThreadKey | None:
    """The key that has this text in columns; None where an escape or a hash stands for a part of it."""
    key = ThreadKey.parse(text)
    return key if key_text(key) == text else None


def own(table: Table, key: ThreadKey) -> ColumnElement[bool]:
    """The rows of a thread, of either version. `table` has the columns `thread_key` and `tenant`."""
    if key.tenant is None:
        return and_(table.c.thread_key == key_text(key), func.coalesce(table.c.tenant, "") == "")
    older = and_(table.c.thread_key == older_text(key), table.c.tenant == column_text(key.tenant))
    return or_(table.c.thread_key == key_text(key), older)


def among(table: Table, keys: Iterable[ThreadKey]) -> ColumnElement[bool]:
    """The rows of these threads, of either version, and perhaps some of other tenants' threads with their ids."""
    wanted = list(keys)
    tenants = sorted({column_text(key.tenant) or "" for key in wanted if key.tenant is not None})
    older = [older_text(key) for key in wanted if key.tenant is not None]
    of_older = and_(table.c.thread_key.in_(older), table.c.tenant.in_(tenants))
    return or_(table.c.thread_key.in_([key_text(key) for key in wanted]), *([of_older] if older else ()))


def with_id(column: ColumnElement[Any], thread_id: str) -> ColumnElement[bool]:
    """The rows of all tenants' threads with this id."""
    text = key_text(ThreadKey(thread_id))
    return or_(column == text, and_(column > f"{text}/", column < f"{text}0"))  # "0" comes right behind "/"


class IdOf(FunctionElement[str]):
    """`IdOf(column)`: the id in the text of a key."""

    name = "id_of"
    type = Text()
    inherit_cache = True


@compiles(IdOf, "postgresql")
def _postgres(element: IdOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"split_part({compiler.process(element.clauses, **options)}, '/', 1)"


@compiles(IdOf, "sqlite")
def _sqlite(element: IdOf, compiler: SQLCompiler, **options: Any) -> str:
    text = compiler.process(element.clauses, **options)
    return f"(CASE instr({text}, '/') WHEN 0 THEN {text} ELSE substr({text}, 1, instr({text}, '/') - 1) END)"
