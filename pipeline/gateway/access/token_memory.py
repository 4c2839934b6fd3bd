"""The tokens of the store in a gateway's memory: at most a second old, or five minutes while the store is away."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from pipeline.stores.accounts.tokens import Token, all_tokens, note_use, tokens_stamp
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from turnmill.clock import now_ms

FRESH_SECONDS: Final = 1.0  # seconds for which they are used without querying the store
SLEEP_ERROR: Final = 0.01  # seconds by which a sleep may be too short
STALE_SECONDS: Final = 300.0  # seconds for which they stay valid while the store is away
USE_INTERVAL_MS: Final = 60_000  # between two updates of a token's last use


class TokenMemory:
    """Holds all tokens, by the digests of their secrets.

    They are read as a whole, so guessing thousands of tokens causes only one query a second.
    """

    def __init__(self, store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self._store = store
        self._known: dict[str, Token] = {}
        self._stamp: tuple[int, int] | None = None
        self._asked = self._answered = -STALE_SECONDS
        self._used: dict[str, int] = {}
        self._noting = set[asyncio.Task[None]]()
        self._lock = asyncio.Lock()

    def renew(self) -> None:
        """Query the store before the next answer, since this process has added or ended tokens."""
        self._asked = -STALE_SECONDS

    async def find(self, digest: str, *, wait: bool = False) -> Token | None:
        """Return the token with this digest, if it is valid. Raises StoreError if that can't be known.

        `wait`: an unknown one may have been added elsewhere since the last query, so wait for the next one.
        """
        if wait and digest not in self._known:
            await asyncio.sleep(max(0.0, self._asked + FRESH_SECONDS - time.monotonic()) + SLEEP_ERROR)
        if time.monotonic() - self._asked > FRESH_SECONDS:
            async with self._lock:
                if time.monotonic() - self._asked > FRESH_SECONDS:
                    await self._read()
        now = now_ms()
        token = self._known.get(digest)
        if token is None or not token.is_good(now) or digest not in token.digests(now):
            return None
        if now - max(self._used.get(token.id, 0), token.used_at or 0) > USE_INTERVAL_MS:
            self._used[token.id] = now
            noting = asyncio.create_task(self._note(token.id, now))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)
        return token

    async def _note(self, token_id: str, at: int) -> None:
        with suppress(StoreError):
            await note_use(await self._store(), token_id, at)

    async def _read(self) -> None:
        try:
            store = await self._store()
            stamp = await tokens_stamp(store)
            if stamp != self._stamp:
                now = now_ms()
                self._known = {digest: token for token in await all_tokens(store) for digest in token.digests(now)}
                self._stamp = stamp
                ids = {token.id for token in self._known.values()}
                self._used = {token_id: at for token_id, at in self._used.items() if token_id in ids}
            self._answered = time.monotonic()
        except StoreError:
            if time.monotonic() - self._answered > STALE_SECONDS:
                raise
        self._asked = time.monotonic()
