"""Tokens in the store: a tenant has so many, however many are made at the same moment."""

import asyncio

from pipeline.gateway.access.token_table import made_token, new_secret
from pipeline.stores.accounts.tokens import Token, add_token, all_tokens
from pipeline.stores.database.store import ThreadStore


def token(tenant: str | None) -> Token:
    return made_token(new_secret(), "t", ["read"], tenant, by="a test")


async def test_a_tenant_has_at_most_so_many(store: ThreadStore) -> None:
    added = await asyncio.gather(*(add_token(store, token("acme"), 3) for _ in range(10)))
    assert sum(added) == 3
    assert await add_token(store, token("globex"), 3)
    assert await add_token(store, token(None), 3)
    assert len(await all_tokens(store)) == 5
