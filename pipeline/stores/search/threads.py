"""Lists of threads, also of those in which a tool was called."""

from dataclasses import replace

from sqlalchemy import select

from pipeline.stores.database.keys import encode_cursor
from pipeline.stores.database.schema import turns
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.hits import callers
from pipeline.stores.threads import list_statements
from pipeline.stores.threads.feedback import in_lines
from pipeline.stores.threads.list_statements import ALL, SORTS, UPDATED, ListQuery
from pipeline.stores.threads.reading import summaries_of
from pipeline.stores.threads.summaries import ThreadPage


async def list_threads(
    store: ThreadStore, limit: int = 50, cursor: str | None = None, wanted: ListQuery = ALL
) -> ThreadPage:
    """Return threads in the wanted order, by default the last updated first. Raises CallerError for a bad cursor."""
    async with store.reading() as connection:
        called = None if wanted.tool is None else await callers(connection, wanted.tool, wanted.tenant)
        await certain(connection)
        of_turns = None if called is None else select(turns.c.thread).where(turns.c.id.in_(called))
        statement = list_statements.thread_list(limit, cursor, wanted, of_turns)
        lines = list((await summaries_of(connection, statement)).items())
        judged = await in_lines(connection, [line.key for _, line in lines[:limit]], wanted.feedback)
    page, value = lines[:limit], SORTS[wanted.sort][1]
    cursor = encode_cursor(value(page[-1][1]), page[-1][0]) if len(lines) > limit else None
    among = None if wanted.sort == UPDATED else list_statements.AMONG
    return ThreadPage(tuple(replace(line, feedback=judged.get(line.key, ())) for _, line in page), cursor, among)
