"""Tokens created by the API and the command line: whose they are, what they permit, and until when."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sqlalchemy import case, delete, func, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.keys import key_text
from pipeline.stores.database.schema import tokens
from pipeline.stores.database.sending import portions
from pipeline.stores.database.store import ThreadStore
from topics.thread_key import ThreadKey

SHOWN: Final = tuple(column for column in tokens.c if column.name not in ("changed_at", "id_token"))
NO_SESSION: Final = tokens.c.session.is_(None)
IS_LINK: Final = tokens.c.thread.is_not(None)
ID_BEGINS: Final = "tk_"  # how the ids of tokens, sessions and links begin
MOST_SESSIONS: Final = 20  # of a person: a new session ends the oldest


@dataclass(frozen=True, slots=True)
class Session:
    """The sign-in that a token is the session of: its provider, the person's ids there, role, and idle time in ms."""

    provider: str
    subject: str
    sid: str | None
    role: str
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret; times in epoch ms.

    `digest`: SHA-256 of the secret, hex; `old`: of the previous secret, valid until `old_until`. `tenant`: None for
    all. `rate`: requests a second. `addresses`: networks from which it may be used; any if empty. `session`: of a
    person who has signed in; it is accepted only as a cookie. `thread`: of a link to a thread, the text of its key; it
    is accepted nowhere else. `maker`: the id of the token or session that made a link, or its name in the settings.
    """

    id: str
    digest: str
    name: str
    tenant: str | None
    scopes: tuple[str, ...]
    made_by: str
    made_at: int
    rate: int | None = None
    addresses: tuple[str, ...] = ()
    expires_at: int | None = None
    old: str | None = None
    old_until: int | None = None
    used_at: int | None = None
    session: Session | None = None
    thread: str | None = None
    maker: str | None = None

    def is_good(self, now: int) -> bool:
        """Return True if it has not expired at `now`."""
        idle = self.session is not None and now >= max(self.used_at or 0, self.made_at) + self.session.idle_ms
        return not idle and (self.expires_at is None or now < self.expires_at)

    def digests(self, now: int) -> Sequence[str]:
        """Return the digests of the secrets that are valid at `now`."""
        return [self.digest] if self.old is None or now >= (self.old_until or 0) else [self.digest, self.old]


async def all_tokens(store: ThreadStore) -> list[Token]:
    """Return all tokens, oldest first."""
    rows = await store.rows(select(*SHOWN).order_by(tokens.c.made_at, tokens.c.id))
    return [_token(row._asdict()) for row in rows]


async def tokens_stamp(store: ThreadStore) -> tuple[int, int]:
    """Return a value that changes when any token is made, changed or revoked."""
    query = select(func.count(), func.coalesce(func.sum(tokens.c.changed_at), 0)).select_from(tokens)
    [(count, changed)] = await store.rows(query)
    return count, int(changed)


async def add_token(store: ThreadStore, token: Token, most: float = math.inf) -> bool:
    """Store a new token; return False if its tenant has `most` of them, without sessions and links."""
    async with store.writing() as connection:
        await stop_changes(connection)
        return await put_token(connection, token, most)


async def stop_changes(connection: AsyncConnection) -> None:
    """Keep other writers from changing tokens until the transaction ends; SQLite has a single writer anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE"))


async def put_token(connection: AsyncConnection, token: Token, most: float) -> bool:
    """Store a new token or link; return False if its tenant has `most` such. Call `stop_changes` before."""
    of_tenant = tokens.c.tenant.is_(None) if token.tenant is None else tokens.c.tenant == token.tenant
    alike = (of_tenant, NO_SESSION, IS_LINK if token.thread is not None else ~IS_LINK)
    if (await connection.scalar(select(func.count()).select_from(tokens).where(*alike)) or 0) >= most:
        return False
    await connection.execute(insert(tokens), [_row(token)])
    return True


async def begin_session(store: ThreadStore, token: Token, id_token: str | None, now: int) -> None:
    """Store a person's new session. Delete expired tokens, and that person's oldest beyond MOST_SESSIONS."""
    async with store.writing() as connection:
        rows = await connection.execute(select(*SHOWN).where(~NO_SESSION).order_by(tokens.c.made_at.desc()))
        known = [_token(row._asdict()) for row in rows]
        of_person = [session for session in known if _person(session) == _person(token)]
        gone = [session.id for session in known if not session.is_good(now)]
        gone += [session.id for session in of_person[MOST_SESSIONS - 1 :]]
        if gone:
            await connection.execute(delete(tokens).where(tokens.c.id.in_(gone)))
        await connection.execute(insert(tokens), [{**_row(token), "id_token": id_token}])


async def end_session(store: ThreadStore, digest: str) -> tuple[Session, str | None] | None:
    """Delete the session with this digest; return it with its ID token, None if there is none."""
    async with store.writing() as connection:
        mine = (tokens.c.digest == digest, ~NO_SESSION)
        row = (await connection.execute(select(tokens.c.session, tokens.c.id_token).where(*mine))).first()
        await connection.execute(delete(tokens).where(*mine))
    return None if row is None else (Session(**row.session), row.id_token)


async def end_sessions(store: ThreadStore, provider: str, subject: str | None, sid: str | None) -> int:
    """Delete a provider's sessions of this person, or with this id, and their links; return how many there were."""
    async with store.writing() as connection:
        rows = await connection.execute(select(tokens.c.id, tokens.c.session).where(~NO_SESSION))
        sessions = {row.id: Session(**row.session) for row in rows}
        gone = [
            key
            for key, session in sessions.items()
            if session.provider == provider and subject in (None, session.subject) and sid in (None, session.sid)
        ]
        await connection.execute(delete(tokens).where(or_(tokens.c.id.in_(gone), tokens.c.maker.in_(gone))))
    return len(gone)


async def rotate_token(store: ThreadStore, token_id: str, digest: str, now: int, old_until: int) -> Token | None:
    """Give a token a new secret; the old secret is valid until `old_until`. Return the token, if there is any."""
    mine = tokens.c.id == token_id
    async with store.writing() as connection:
        query = select(*SHOWN, tokens.c.changed_at).where(mine, NO_SESSION, ~IS_LINK).with_for_update()
        row = (await connection.execute(query)).first()
        if row is None:
            return None
        changed = {"digest": digest, "old": row.digest, "old_until": old_until}
        at = max(now, row.changed_at + 1)
        await connection.execute(update(tokens).where(mine).values(**changed, changed_at=at))
    before = {name: value for name, value in row._asdict().items() if name != "changed_at"}
    return replace(_token(before), **changed)


async def revoke_token(store: ThreadStore, token_id: str) -> bool:
    """Delete a token, and the links that it made; return False if there is none."""
    return await store.change(delete(tokens).where(or_(tokens.c.id == token_id, tokens.c.maker == token_id))) > 0


async def end_links(connection: AsyncConnection, keys: Iterable[ThreadKey], _: str) -> int:
    """Delete the links to threads; return how many there were."""
    ended = 0
    for some in portions(sorted(map(key_text, keys))):
        ended += (await connection.execute(delete(tokens).where(tokens.c.thread.in_(some)))).rowcount
    return ended


async def revoke_tokens(store: ThreadStore, tenant: str) -> None:
    """Delete a tenant's tokens."""
    async with store.writing() as connection:
        owners = await connection.execute(select(tokens.c.id, tokens.c.tenant))
        gone = [token for token, owner in owners if owner == tenant]  # in Python: some names fit no column
        await connection.execute(delete(tokens).where(tokens.c.id.in_(gone)))


async def note_use(store: ThreadStore, token_id: str, at: int) -> None:
    """Note that a token was used at this time (epoch ms)."""
    earlier = or_(tokens.c.used_at.is_(None), tokens.c.used_at < at)
    seen = tokens.c.changed_at + case((NO_SESSION, 0), else_=1)  # so that other gateways see its idle time
    await store.change(update(tokens).where(tokens.c.id == token_id, earlier).values(used_at=at, changed_at=seen))


def _token(row: dict[str, Any]) -> Token:
    session = None if row["session"] is None else Session(**row["session"])
    return Token(**row | {"scopes": tuple(row["scopes"]), "addresses": tuple(row["addresses"]), "session": session})


def _row(token: Token) -> dict[str, Any]:
    lists = {"scopes": list(token.scopes), "addresses": list(token.addresses)}
    return {**asdict(token), **lists, "changed_at": token.made_at}


def _person(token: Token) -> tuple[str, str] | None:
    return None if token.session is None else (token.session.provider, token.session.subject)
