"""A feature as a new one is added: a file on each floor that it needs, and a row in each table.

Each turn has its number of responses in a table of the store, a route sums them up, and a command prints the sum.
"""

from pathlib import Path
from typing import Final

from tests.support import toy_wire

FILES: Final = {
    "pipeline/stores/threads/answered.py": '''"""How many responses each turn has."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.schema import Id, metadata, turns
from pipeline.stores.database.sending import Call
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.table_that_follows import PlacedTurn
from pipeline.stores.threads.statements import number_of
from topics.thread_key import ThreadKey

answered = Table(
    "answered",
    metadata,
    Column("turn", Id, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("responses", Integer, nullable=False),
)


async def answer_calls(connection: AsyncConnection, placed: Sequence[PlacedTurn], _: Any) -> list[Call]:
    """Return the call that adds the rows of these turns."""
    rows = [(turn.id, len(turn.rows.usage)) for turn in placed]
    if connection.dialect.name == "sqlite":
        return [Call("INSERT OR REPLACE INTO answered VALUES (?, ?)", rows, many=True)]
    sql = "INSERT INTO answered SELECT * FROM unnest($1::bigint[], $2::int[]) ON CONFLICT DO NOTHING"
    return [Call(sql, tuple(map(list, zip(*rows))))]


async def responses_of(store: ThreadStore, key: ThreadKey) -> int:
    """Return the number of a thread's responses."""
    query = select(func.sum(answered.c.responses)).join(turns, turns.c.id == answered.c.turn)
    async with store.reading() as connection:
        return await connection.scalar(query.where(turns.c.thread == number_of(key))) or 0
''',
    "pipeline/gateway/reading/answered.py": '''"""How many responses a thread has, over HTTP."""

from fastapi import APIRouter

from pipeline.gateway.access.security import Reader
from pipeline.gateway.problems import documented
from pipeline.gateway.routing import Tenant, ThreadId, facts
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.answered import responses_of

router = APIRouter()


@router.get("/v1/threads/{thread_id}/answered", summary="Responses", responses=documented("unknown-thread"))
@facts("own")
async def read_answered(
    gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None
) -> dict[str, int]:
    """Return the number of responses."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    return {"responses": await responses_of(await gateway.store(), key)}
''',
    "pipeline/cli/stored/answered.py": '''"""`turnmill answered`: how many responses a thread has."""

import click

from pipeline.cli.stored.selection import find_thread, in_store
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.answered import responses_of


@click.command(short_help="Count the responses of a thread.")
@click.argument("thread")
def answered(thread: str) -> None:
    """Count the responses of a thread."""

    async def count(store: ThreadStore) -> None:
        click.echo(await responses_of(store, await find_thread(store, thread, None)))

    in_store(count)
''',
}
# File -> the row that its table gets, with the line that imports what the row names.
ROWS: Final = {
    "pipeline/stores/tables_that_follow.py": (
        "BOOKS: Final = (",
        '    Book((TablePlace("answered", FOLLOWS, NOW),), calls=answer_calls),',
        "from pipeline.stores.threads.answered import answer_calls",
    ),
    "pipeline/gateway/serving/parts.py": (
        "PARTS: Final = (",
        '    Part("answered", routers=("reading.answered",)),',
        "",
    ),
    "pipeline/__main__.py": (
        "MODULES: Final = {",
        '    "answered": "pipeline.cli.stored.answered:answered",',
        "",
    ),
    "turnmill/command_line.py": (
        "COMMANDS: Final[dict[str, Command]] = {",
        '    "answered": Command("worker", "Count the responses of a thread."),',
        "",
    ),
}


def program(root: Path) -> Path:
    """A copy of the program, in this folder, that has the feature."""
    toy_wire.copied(root)
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    for name, (table, row, needed) in ROWS.items():
        file = root / name
        head, opening, rows = file.read_text(encoding="utf-8").partition(table)
        assert opening, f"{name} has no table that begins with {table}"
        last = head.rfind("\nfrom ") if needed else 0
        if needed:
            head = f"{head[:last]}\n{needed}{head[last:]}"
        # After the rows that there are: books are written in their order, and turns come first.
        end = rows.index("\n}" if opening.endswith("{") else "\n)")
        file.write_text(f"{head}{opening}{rows[:end]}\n{row}{rows[end:]}", encoding="utf-8")
    return root
