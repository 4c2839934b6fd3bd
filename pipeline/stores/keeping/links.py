"""Links to threads: tokens without a scope, each for a thread, as long as the thread, its maker and its time last."""

from sqlalchemy import delete, select

from pipeline.stores.accounts.tokens import ID_BEGINS, IS_LINK, Token, end_links, put_token, stop_changes
from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import tokens
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.write import lock
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.limits import LINKS


async def add_link(store: ThreadStore, key: ThreadKey, link: Token) -> None:
    """Store a new link to a thread, and delete all that have expired.

    Raises CallerError for a thread that is being or was deleted, a maker whose token was revoked, and too many links.
    """
    if key_text(key) != key.text or link.tenant != key.tenant:
        raise CallerError("a thread with such an id or tenant can't be shared")
    async with store.writing() as connection:
        await lock(connection, [key])  # waits for a deletion that is about to mark it
        stored = await connection.scalar(statements.has_turns(key)) is not None
        gone = not stored or await erased_of(connection, [key])
        await stop_changes(connection)  # a revocation of the maker has ended, or begins when the link is there
        maker = await connection.scalar(select(tokens.c.id).where(tokens.c.id == link.maker))
        if gone:
            raise CallerError(f"thread {key.text} can't be shared: it was deleted")
        if maker is None and (link.maker or "").startswith(ID_BEGINS):
            raise CallerError("the token that asks for the link was revoked")
        await connection.execute(delete(tokens).where(IS_LINK, tokens.c.expires_at <= link.made_at))
        if not await put_token(connection, link, LINKS):
            raise CallerError(f"there are {LINKS:,} links already: end those of a thread, or wait until some expire")


async def end_links_of(store: ThreadStore, key: ThreadKey) -> int:
    """End all links to a thread; return how many there were."""
    async with store.writing() as connection:
        return await end_links(connection, [key], "")
