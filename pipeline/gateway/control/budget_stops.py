"""Stops the open runs of used-up budgets, or has people asked whether more may be used.

What open runs have used so far counts as used.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from aiokafka import TopicPartition

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.control.commands import EXPIRES_MS, Commands
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.state import Gateway, Service
from pipeline.observability.audit import about, audit
from pipeline.observability.logs import RepeatedWarning
from pipeline.observability.telemetry_meter import MODEL, PROVIDER, Seen
from pipeline.policies.budgets import Budget, State
from pipeline.policies.pools import OPEN_USE
from pipeline.policies.prices import Prices
from pipeline.stores.costs.prices import PRICED, cost_of
from pipeline.stores.outbound.notices import KNOWN_MS, add_notices
from pipeline.turns import tokens
from pipeline.turns.tokens import Reading
from topics import telemetry
from topics.catalog import TELEMETRY
from topics.state import RunKey
from topics.telemetry import OPEN_USAGE, TelemetryRecord
from turnmill.clock import now_ms
from turnmill.control.record import BUDGET, NOW, STOP, Command
from turnmill.ending import ended
from turnmill.errors import CallerError, InvalidRecord, TurnmillError
from turnmill.remembered import Remembered

QUERY_INTERVAL: Final = 0.5  # seconds between two queries of the store
SEEN_RECORDS: Final = 20_000  # by which repeated ones are recognized
LOOK_BACK: Final = 3_600.0  # seconds of telemetry to read at the start, for runs that began before this gateway

log = logging.getLogger(__name__)

Used = dict[str | None, Counter[str]]  # by model: tokens, nano_usd


class OpenUse:
    """What open runs have used so far, as reported by their streams and by workers. A listener of the follower."""

    name = "what open runs have used"
    topics = (TELEMETRY,)
    runs: Final = "none"

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._seen = Seen(SEEN_RECORDS)
        self.used: Remembered[RunKey, Used] = Remembered(OPEN_USE)  # as reported by their streams
        self.reported: Remembered[RunKey, Used] = Remembered(OPEN_USE)  # as reported by workers

    async def starts(self, past: Past) -> Offsets:
        """Return where the reading begins."""
        return await past.since(self.topics, LOOK_BACK)

    def take(self, partition: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Take records of the telemetry topic; malformed ones are skipped, since other readers report them."""
        for record in records:
            with suppress(InvalidRecord, ValueError, TypeError, KeyError, AttributeError):
                self.add(telemetry.decode(record.value))

    def add(self, record: TelemetryRecord) -> None:
        """Add the usage of a response, or replace a worker's report on all finished responses by a newer report.

        Derived usage is skipped: it is sent at the end of a run, and stored at the same moment.
        """
        key, data = RunKey(record.get("tenant"), record["thread_id"], record["run_id"]), record["data"]
        if record["type"] == OPEN_USAGE:
            report: Used = {}
            for row in data["used"]:
                self._count(report, row, record)
            self.reported.put(key.tenant, key, report)
        elif record["type"] == "data-sys-usage" and not record.get("derived") and self._seen.first(record):
            used = self.used.get(key.tenant, key) or {}
            self._count(used, data, record)
            self.used.put(key.tenant, key, used)

    def _count(self, used: Used, data: dict[str, Any], record: TelemetryRecord) -> None:
        reading = Reading(data)
        known, model = tokens.read(reading), reading.text(MODEL) or record.get("model_name")
        row: dict[str, Any] = {name: known.get(name) for name in PRICED}
        row |= {"model": model, "provider": reading.text(PROVIDER) or record.get("provider_name")}
        row |= {"tenant": record.get("tenant") or "", "at": record["ts"], "service_tier": tokens.tier_of(data)}
        row["summed"] = data.get(tokens.SUMMED_CALLS) is True
        told = known.get(tokens.COST)
        cost = cost_of(row, self._prices).nano_usd if told is None else told
        spent = known.get("total_tokens", known.get("input_tokens", 0) + known.get("output_tokens", 0))
        used.setdefault(model, Counter()).update({"tokens": spent, "nano_usd": cost or 0})

    def of(self, budget: Budget, runs: Iterable[ListedRun]) -> Counter[str]:
        """Return what these runs have used of a budget, by tenant; per run, the larger of the two reports counts.

        Some streams repeat at their end what their responses have used.
        """
        used = Counter[str]()
        for run in runs:
            each = (memory.get(run.key.tenant, run.key) or {} for memory in (self.used, self.reported))
            used[run.key.tenant or ""] += max(_of_budget(budget, run, report) for report in each)
        return used

    def keep(self, runs: Iterable[RunKey]) -> None:
        """Forget all other runs: those no longer open are in the store, or soon will be."""
        still = {*runs}
        for memory in (self.used, self.reported):
            for key in [key for _, key, _ in memory.items() if key not in still]:
                memory.pop(key.tenant, key)


def _of_budget(budget: Budget, run: ListedRun, used: Used) -> int:
    counted = (spent for model, spent in used.items() if budget.counts(run.key.tenant, run.agent_id, model, run.labels))
    return sum(spent[budget.unit] for spent in counted)


def to_stop(states: Iterable[State], runs: Sequence[ListedRun], now: int) -> list[tuple[State, ListedRun]]:
    """Return the used-up budgets with their open runs. Pure."""
    return [
        (state, run)
        for state in states
        if not state.over(now)
        for run in runs
        if not run.imported
        and state.budget.counts(run.key.tenant, run.agent_id, run.model, run.labels)
        and state.exhausted(run.key.tenant)
    ]


class BudgetStops(Service):
    """Checks the budgets that stop runs, and those that ask people, twice a second."""

    def __init__(self, gateway: Gateway) -> None:
        """Prepare checking. Raises CallerError where commands aren't allowed."""
        if not gateway.settings.control:
            raise CallerError("a budget stops runs, or asks (`enforce`), which TURNMILL_CONTROL must allow")
        self._store = gateway.store
        self._follower = gateway.service(Follower)
        self._runs = gateway.service(RunWatch)
        self._budgets = gateway.service(Budgets)
        self._commands = gateway.service(Commands)
        self._open_use = OpenUse(gateway.settings.price_list)
        self._notified: set[str] = set()  # ids of questions
        self._task: asyncio.Task[None] | None = None
        self._warn = RepeatedWarning(log)

    def start(self) -> None:
        """Start checking."""
        self._follower.listen(self._open_use)
        self._budgets.open_use = lambda budget: self._open_use.of(budget, self._follower.runs)
        self._task = asyncio.create_task(self._watch(), name="budgets that stop")

    async def close(self) -> None:
        """Stop checking."""
        if self._task is not None:
            await ended(self._task)

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except TurnmillError as error:
                self._warn("stops", "runs of budgets that are used up can't be stopped now: %s", error)
            except Exception:
                log.exception("budgets: stopping runs failed")
            await asyncio.sleep(QUERY_INTERVAL)

    async def _look(self) -> None:
        budgets, runs = self._budgets, await self._runs.open_runs()
        await self._commands.ready()
        await budgets.renew()
        self._open_use.keep(run.key for run in runs)
        for state in budgets.states.values():
            await self._tell(state)
        for state, run in to_stop(filter(budgets.stops, budgets.states.values()), list(runs), now_ms()):
            command = _command(state, run)
            if self._commands.standing(command.id) is None:  # one that is given again has the same id
                await self._commands.give(command)
                extra = about(run.thread)
                audit.info("run %s is told to stop, by budget %s", run.key.run_id, state.budget.name, extra=extra)

    async def _tell(self, state: State) -> None:
        """Add the notice of a budget that has begun to ask; workers would add the same one later."""
        budgets, now = self._budgets, now_ms()
        question = state.budget.question(now)
        if question not in self._notified and budgets.asked.get(question) and (notices := state.notices(now)):
            await add_notices(await self._store(), notices[-1:], keep_until=state.end + KNOWN_MS)
            self._notified = {question, *(self._notified & budgets.asked.keys())}
            log.info("budget %s is used up, and asks whether more may be used", state.budget.name)


def _command(state: State, run: ListedRun) -> Command:
    """Return the command to stop a run; its id is the same from every gateway."""
    tenant, thread_id, run_id = run.key
    named = uuid5(NAMESPACE_URL, f"{state.budget.name} {state.start} {tenant or ''} {thread_id} {run_id}")
    now = now_ms()
    return Command(str(named), thread_id, run_id, tenant, STOP, NOW, BUDGET, now, now + EXPIRES_MS)
