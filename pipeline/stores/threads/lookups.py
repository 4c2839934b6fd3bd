"""The statements that each batch of turns is written with, as the drivers take them, for any number of rows.

On Postgres they join an array with a table by the table's index, and `certain` makes the planner do so: with the
statistics of an empty table, which a new database has for its first minutes, it would scan the whole table. The same
applies to reads of a few threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pipeline.stores.database.keys import exact_name, id_and_tenant
from pipeline.stores.database.sending import Call
from pipeline.stores.threads.rows import ThreadRow, TurnKey
from topics import json_text
from topics.thread_key import ThreadKey

# The columns of a ThreadRow -> their types on Postgres.
COLUMNS: Final = ThreadRow._fields
TYPES: Final = {
    **dict.fromkeys(COLUMNS, "bigint"),
    **dict.fromkeys(("external_id", "title", "prompt", "model", "asked"), "text"),
    "status": "smallint",
    "turns": "integer",
}
_ADD_THREADS: Final = {
    "postgresql": "INSERT INTO threads (thread_id, tenant, name) SELECT thread_id, tenant, CAST(name AS json) "
    "FROM unnest($1::text[], $2::text[], $3::text[]) AS given (thread_id, tenant, name) "
    "ON CONFLICT (thread_id, tenant) DO UPDATE SET name = threads.name WHERE false",
    "sqlite": "INSERT INTO threads (thread_id, tenant, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
}
_READ: Final = ", ".join("CAST(t.asked AS text)" if name == "asked" else f"t.{name}" for name in COLUMNS)
_GIVEN: Final = {name: f"CAST(given.{name} AS json)" if name == "asked" else f"given.{name}" for name in COLUMNS}
_ARRAYS: Final = ", ".join(f"${number}::{TYPES[name]}[]" for number, name in enumerate(COLUMNS, 1))
# ruff: noqa: S608  # the names in these statements are our own
_THREADS: Final = {
    "postgresql": (
        f"SELECT t.thread_id, t.tenant, {_READ} FROM unnest($1::text[], $2::text[]) AS given (thread_id, tenant) "
        'JOIN threads t ON t.thread_id = given.thread_id COLLATE "C" AND t.tenant = given.tenant COLLATE "C"'
    ),
    "sqlite": (
        f"SELECT t.thread_id, t.tenant, {_READ} FROM json_each(?) AS given CROSS JOIN threads t "
        "ON t.thread_id = json_extract(given.value, '$[0]') AND t.tenant = json_extract(given.value, '$[1]')"
    ),
}
_KNOWN: Final = {
    "postgresql": (
        "SELECT t.thread, t.turn_id, t.id, t.events, t.status, t.revision, t.digest "
        "FROM unnest($1::bigint[], $2::bytea[]) AS given (thread, turn_id) "
        "JOIN turns t ON t.thread = given.thread AND t.turn_id = given.turn_id"
    ),
    "sqlite": (
        "SELECT t.thread, t.turn_id, t.id, t.events, t.status, t.revision, t.digest "
        "FROM json_each(?) AS given CROSS JOIN turns t ON t.thread = json_extract(given.value, '$[0]') "
        "AND t.turn_id = from_hex(json_extract(given.value, '$[1]'))"
    ),
}
_PUT_THREADS: Final = {
    "postgresql": (
        f"UPDATE threads SET {', '.join(f'{name} = {_GIVEN[name]}' for name in COLUMNS[1:])} "
        f"FROM unnest({_ARRAYS}) AS given ({', '.join(COLUMNS)}) WHERE threads.id = given.id"
    ),
    "sqlite": f"UPDATE threads SET {', '.join(f'{name} = ?' for name in COLUMNS[1:])} WHERE id = ?",
}
_ADD_AGENTS: Final = {
    "postgresql": (
        "INSERT INTO thread_agents (agent, thread, turns) SELECT agent, thread, turns "
        "FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS given (agent, thread, turns) "
        "ON CONFLICT (agent, thread) DO UPDATE SET turns = thread_agents.turns + excluded.turns"
    ),
    "sqlite": (
        "INSERT INTO thread_agents (agent, thread, turns) VALUES (?, ?, ?) "
        "ON CONFLICT (agent, thread) DO UPDATE SET turns = turns + excluded.turns"
    ),
}


def add_threads(dialect: str, keys: Collection[ThreadKey]) -> Call:
    """Add the missing rows of these threads, and lock all of them until the transaction ends."""
    # On Postgres the update that never happens locks an existing row. All writers lock in the same order, so they can't
    # deadlock; on SQLite there is a single writer.
    rows = dict[tuple[str, str], tuple[str, str, str | None]]()
    for key in keys:
        name, exact = id_and_tenant(key), exact_name(key)
        rows[name] = *name, None if exact is None else json_text.dumps(exact)
    return _of_rows(_ADD_THREADS, dialect, [rows[name] for name in sorted(rows)])


def threads_of(dialect: str, keys: Collection[ThreadKey]) -> Call:
    """Return a call that selects thread_id, tenant and the columns of a ThreadRow, of those threads that exist."""
    named = sorted({*map(id_and_tenant, keys)})
    if dialect == "postgresql":
        return Call(_THREADS[dialect], list(zip(*named, strict=True)))
    return Call(_THREADS[dialect], (json_text.dumps(named),))


def known_turns(dialect: str, keys: Collection[TurnKey], threads: Mapping[ThreadKey, ThreadRow]) -> Call:
    """Return a call that selects thread, turn_id, id and the parts of the rank, of those turns that exist."""
    placed = sorted((threads[key].id, turn_id) for key, turn_id in keys)
    if dialect == "postgresql":
        return Call(_KNOWN[dialect], list(zip(*placed, strict=True)))
    return Call(_KNOWN[dialect], (json_text.dumps([(thread, turn_id.hex()) for thread, turn_id in placed]),))


def put_threads(dialect: str, rows: Sequence[ThreadRow]) -> Call:
    """Write these rows of `threads`."""
    if dialect == "postgresql":
        return _of_rows(_PUT_THREADS, dialect, rows)
    return Call(_PUT_THREADS[dialect], [(*row[1:], row[0]) for row in rows], many=True)


def add_agents(dialect: str, counts: dict[tuple[int, int], int]) -> Call:
    """Count turns: (agent, thread) -> change of the number of turns in which the agent speaks."""
    return _of_rows(_ADD_AGENTS, dialect, sorted((*key, count) for key, count in counts.items()))


def _of_rows(statements: dict[str, str], dialect: str, rows: Sequence[Sequence[Any]]) -> Call:
    """Return the call for these rows: Postgres takes an array for each column, SQLite the rows."""
    if dialect == "postgresql":
        return Call(statements[dialect], [list(column) for column in zip(*rows, strict=True)])
    return Call(statements[dialect], rows, many=True)
