"""Tokens that the API and the command line make: who calls with them, what they may do, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from pipeline.stores.connections import Connected
from pipeline.stores.schema import tokens


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret; times in epoch ms.

    `digest`: SHA-256 of the secret, hex; `old`: of the one before, which is good until `old_until`. `tenant`: None for
    all. `rate`: requests a second. `addresses`: networks that it may come from; any without them.
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

    def is_good(self, now: int) -> bool:
        """Return True if it has not expired at `now`."""
        return self.expires_at is None or now < self.expires_at

    def digests(self, now: int) -> Sequence[str]:
        """Return the digests of the secrets that let in at `now`."""
        return [self.digest] if self.old is None or now >= (self.old_until or 0) else [self.digest, self.old]


class Tokens(Connected):
    """A store with tokens. Every method raises StoreError."""

    async def tokens(self) -> list[Token]:
        """Return all of them, the oldest first."""
        async with self._reading() as connection:
            rows = await connection.execute(select(tokens).order_by(tokens.c.made_at, tokens.c.id))
            return [_token(row._asdict()) for row in rows]

    async def tokens_stamp(self) -> tuple[int, int]:
        """Return a value that is another one once any token was made, changed or revoked."""
        query = select(func.count(), func.coalesce(func.sum(tokens.c.changed_at), 0)).select_from(tokens)
        async with self._reading() as connection:
            count, changed = (await connection.execute(query)).one()
        return count, int(changed)

    async def add_token(self, token: Token) -> None:
        """Keep a new one."""
        row = asdict(token) | {"scopes": list(token.scopes), "addresses": list(token.addresses)}
        async with self._writing() as connection:
            await connection.execute(insert(tokens), [{**row, "changed_at": token.made_at}])

    async def rotate_token(self, token_id: str, digest: str, now: int, old_until: int) -> Token | None:
        """Give a token a new secret; the one before is good until `old_until`. Return it; None where there is none."""
        mine = tokens.c.id == token_id
        async with self._writing() as connection:
            row = (await connection.execute(select(tokens).where(mine).with_for_update())).first()
            if row is None:
                return None
            changed = {"digest": digest, "old": row.digest, "old_until": old_until}
            at = max(now, row.changed_at + 1)
            await connection.execute(update(tokens).where(mine).values(**changed, changed_at=at))
        return replace(_token(row._asdict()), **changed)

    async def revoke_token(self, token_id: str) -> bool:
        """Delete a token; return False if there is none."""
        async with self._writing() as connection:
            return (await connection.execute(delete(tokens).where(tokens.c.id == token_id))).rowcount > 0

    async def revoke_tokens(self, tenant: str) -> None:
        """Delete a tenant's tokens."""
        async with self._writing() as connection:
            owners = await connection.execute(select(tokens.c.id, tokens.c.tenant))
            gone = [token for token, owner in owners if owner == tenant]  # a name that no column takes is nobody's
            await connection.execute(delete(tokens).where(tokens.c.id.in_(gone)))

    async def note_use(self, token_id: str, at: int) -> None:
        """Note that a token was used at this time (epoch ms)."""
        earlier = or_(tokens.c.used_at.is_(None), tokens.c.used_at < at)
        async with self._writing() as connection:
            await connection.execute(update(tokens).where(tokens.c.id == token_id, earlier).values(used_at=at))


def _token(row: dict[str, Any]) -> Token:
    del row["changed_at"]
    return Token(**row | {"scopes": tuple(row["scopes"]), "addresses": tuple(row["addresses"])})
