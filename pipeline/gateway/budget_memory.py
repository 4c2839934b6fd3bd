"""The used part of the budgets in the gateway's memory, so that a check costs no query."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from pipeline.observability.repeated_warning import RepeatedWarning
from pipeline.policies.budgets import Budget, State, Verdict
from pipeline.stores.budgeting import states
from pipeline.stores.errors import StoreError
from pipeline.stores.sql import ThreadStore
from turnmill.clock import now_ms

EVERY: Final = 5.0  # seconds between two looks at the store

log = logging.getLogger(__name__)


class Budgets:
    """The used part of the budgets, some seconds old.

    While the store is away, the last known numbers count; a budget that was never known refuses nothing.
    """

    def __init__(self, budgets: tuple[Budget, ...], store: Callable[[], Awaitable[ThreadStore]]) -> None:
        self.budgets = budgets
        self.states: dict[str, State] = {}
        self.at = 0  # epoch ms of the last look
        self._store = store
        self._looking: asyncio.Task[None] | None = None
        self._asked: asyncio.Task[None] | None = None
        self._warn = RepeatedWarning(log)

    def start(self) -> None:
        """Look every few seconds from now on; nothing where there are no budgets."""
        if self.budgets and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Look no more."""
        running = [task for task in (self._looking, self._asked) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def known(self) -> None:
        """Return when the store was asked once. Raises StoreError."""
        self.start()
        if self.budgets and not self.at:
            await self.renew()

    async def renew(self) -> None:
        """Ask the store; who asks while an answer is on its way waits for the same one. Raises StoreError."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
        await asyncio.shield(self._asked)

    async def _ask(self) -> None:
        now = now_ms()
        found = await states(await self._store(), self.budgets, now)
        self.states, self.at = {one.budget.name: one for one in found}, now

    def counting(self, tenant: str | None, agent: str | None, models: Collection[str] | None) -> tuple[Budget, ...]:
        """Return the budgets that count a call to one of these models; None: the model is unknown.

        `tenant`: None or "" for none.
        """

        def counts(one: Budget) -> bool:
            named = (one.model,) if models is None else models or (None,)
            return any(one.counts(tenant, agent, model) for model in named)

        return tuple(filter(counts, self.budgets))

    def verdict(self, tenant: str | None, budgets: Collection[Budget]) -> Verdict:
        """Return whether these budgets allow a tenant's call; answered from memory."""
        now = now_ms()
        known = (self.states.get(one.name) for one in budgets)
        exhausted = tuple(one for one in known if one and one.exhausted(tenant) and not one.over(now))
        return Verdict(not exhausted, exhausted)

    def allowed(self, tenant: str | None, agent: str | None = None, model: str | None = None) -> Verdict:
        """Return the same by the names of agent and model."""
        return self.verdict(tenant, self.counting(tenant, agent, () if model is None else (model,)))

    async def _look(self) -> None:
        while True:
            try:
                await self.renew()
            except StoreError as error:
                self._warn("store", "what is used of the budgets is as it was: %s", error)
            except Exception:
                log.exception("budgets: looking at the store failed")
            await asyncio.sleep(EVERY)
