"""What is used of each budget, held in the gateway's memory so that a check costs no query."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Final

from pipeline.gateway.problems import Problem
from pipeline.gateway.state import Gateway, Service, provided
from pipeline.observability.logs import RepeatedWarning
from pipeline.policies.budgets import NANO, Budget, BudgetAnswers, State, Verdict, thread_of
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import Waiting, WaitingWanted
from pipeline.stores.usage.budgets import states
from pipeline.turns.times import iso
from turnmill.clock import now_ms

QUERY_INTERVAL: Final = 5.0  # seconds between two queries of the store
MAX_SHOWN: Final = 10  # budgets that a problem names

log = logging.getLogger(__name__)


class Budgets(Service):
    """What is used of each budget, as of some seconds ago.

    While the store is away, the last known numbers count; a budget that was never known refuses nothing.

    `answers`: people's answers to budgets that ask; `asked`: since when each open question is open (epoch ms), as of
    the last query. `open_use`: returns what open runs have used of a budget in addition, by tenant; None: not counted.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.budgets = gateway.settings.budget_list
        self.states: dict[str, State] = {}
        self.at = 0  # epoch ms of the last query
        self.answers = BudgetAnswers(self.budgets)
        self.asked: dict[str, int] = {}
        self.open_use: Callable[[Budget], Mapping[str, int]] | None = None
        self._store = gateway.store
        self._looking: asyncio.Task[None] | None = None
        self._asked: asyncio.Task[None] | None = None
        self._warn = RepeatedWarning(log)

    def start(self) -> None:
        """Start to query the store every few seconds; do nothing if there are no budgets."""
        if self.budgets and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop querying the store."""
        running = [task for task in (self._looking, self._asked) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def known(self) -> None:
        """Return once the store has been queried at least once. Raises StoreError."""
        self.start()
        if self.budgets and not self.at:
            await self.renew()

    async def renew(self) -> None:
        """Query the store; concurrent callers share one query. Raises StoreError."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
        await asyncio.shield(self._asked)

    async def _ask(self) -> None:
        now = now_ms()
        stored = await states(await self._store(), self.budgets, now)
        self.states, self.at = {state.budget.name: self._whole(state) for state in stored}, now
        names = [state.budget.question(now) for state in self.states.values() if self._asks(state) and state.reached]
        self.asked = {name: self.asked.get(name, now) for name in names}

    def _whole(self, stored: State) -> State:
        if self.open_use is None:
            return stored
        return stored.with_more(self.open_use(stored.budget)).at_least(self.states.get(stored.budget.name))

    def _asks(self, state: State) -> bool:
        """Return True if the budget asks and a person may still answer or approve."""
        now = now_ms()
        is_open = state.budget.enforce == "ask" and not state.over(now)
        return is_open and self.answers.approved(state.budget, now) is None

    def stops(self, state: State) -> bool:
        """Return True if this budget stops its open runs once it is used up."""
        enforce = state.budget.enforce
        return enforce == "stop" or (enforce == "ask" and self.answers.approved(state.budget, now_ms()) is False)

    def waiting(self, wanted: WaitingWanted) -> list[Waiting]:
        """Return the open questions of budgets, each as a separate waiting thread."""
        now = now_ms()
        questions = [(state, state.budget.question(now)) for state in self.states.values() if self._asks(state)]
        waiting = (_waiting(state, name, self.asked[name]) for state, name in questions if name in self.asked)
        return [
            thread
            for thread in waiting
            if wanted.tenant in (None, thread.tenant or "")
            and wanted.agent in (None, thread.agent_id)
            and (wanted.thread is None or {*wanted.thread} & {thread.thread_id, thread.external_id})
        ]

    def counting(
        self,
        tenant: str | None,
        agent: str | None,
        models: Collection[str] | None,
        labels: Collection[tuple[str, str]] = (),
        *,
        enforced: bool = False,
    ) -> tuple[Budget, ...]:
        """Return the budgets that count a call to one of these models; None: the model is unknown.

        `tenant`: None or "" for none. `labels`: those of its run, as (kind, label). `enforced`: those alone that
        refuse calls once they are used up.
        """

        def counts(budget: Budget) -> bool:
            if enforced and budget.enforce == "notice":
                return False
            named = (budget.model,) if models is None else models or (None,)
            return any(budget.counts(tenant, agent, model, labels) for model in named)

        return tuple(filter(counts, self.budgets))

    def verdict(self, tenant: str | None, budgets: Collection[Budget]) -> Verdict:
        """Return whether these budgets allow a tenant's call, from memory."""
        now = now_ms()
        known = (self.states.get(budget.name) for budget in budgets)
        exhausted = tuple(
            state
            for state in known
            if state
            and state.exhausted(tenant)
            and not state.over(now)
            and not self.answers.approved(state.budget, now)
        )
        return Verdict(not exhausted, exhausted, bool(exhausted) and all(map(self._asks, exhausted)))

    async def _look(self) -> None:
        while True:
            try:
                await self.renew()
            except StoreError as error:
                self._warn("store", "the usage of budgets is that of the last query: %s", error)
            except Exception:
                log.exception("budgets: looking at the store failed")
            await asyncio.sleep(QUERY_INTERVAL)


def used_up(verdict: Verdict) -> Problem:
    """Return the problem that answers a call which budgets don't allow."""
    shown = [state.budget.name for state in verdict.exhausted[:MAX_SHOWN]]
    end = max(state.end for state in verdict.exhausted)
    asked = "nobody has answered yet whether more may be used: " if verdict.asks else ""
    return Problem(
        "budget-used-up",
        f"used up until {iso(end)}: {', '.join(shown)}; {asked}this call is not passed on",
        headers={"x-should-retry": "false", "Retry-After": str(max(1, (end - now_ms()) // 1000 + 1))},
        budgets=shown,
        resets=iso(end),
    )


def _waiting(state: State, answer_id: str, since: int) -> Waiting:
    """Return the question of a budget as a row of the waiting threads; it has no turn and no run."""
    budget, (thread_id, name) = state.budget, thread_of(state.budget)
    unit, scale = ("tokens", 1) if budget.unit == "tokens" else ("US dollars", NANO)
    used, most = (f"{amount / scale:,.10g}" for amount in (state.used, budget.limit))
    message = f"{budget.name}: {used} of {most} {unit} in a {budget.per} are used. May more be used until it is over?"
    asked = {"answer_id": answer_id, "id": answer_id, "kind": "approval", "message": message}
    nothing = dict.fromkeys(("tool_name", "tool_call_id", "args"))
    return Waiting(
        thread_id=thread_id,
        external_id=name,
        title=f"The budget {budget.name}",
        tenant=budget.tenant or None,
        turn_id="",
        run_id="",
        agent_id=budget.agent or "",
        agent_name=None,
        dialect="",
        since=since,
        asked=[asked | nothing],
    )


TheBudgets = Annotated[Budgets, provided(Budgets)]
