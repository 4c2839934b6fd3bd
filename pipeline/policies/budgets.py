"""Budgets as values: limits of tokens or money, for tenants, agents or models, in a time window. Pure.

A budget may ask people whether more may be used. The question belongs to a separate thread, `budget:NAME`, so that all
its answers are in a partition of the control topic. The first answer counts, for the rest of the budget's hour, day
or month.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Literal, get_args

from pipeline.policies.entries import entries, name_of, same_name
from topics.notice import BUDGET_REACHED, VERSION, BudgetReached, NoticeRecord
from turnmill.control.answer_forms import approves
from turnmill.control.record import Command
from turnmill.identity import thread_uuid
from turnmill.labels import KINDS
from turnmill.limits import BUDGETS

MAX_SHARE: Final = 0.5  # most of a budget's limit that a tenant's usage takes from the others
LEVELS: Final = (80, 100)  # percent of the limit at which a notice is sent
NANO: Final = 1_000_000_000
DATED: Final = re.compile(r"[-@](?:latest|[0-9][0-9-]{3,})")
QUESTIONS: Final = "budget:"  # the prefix of names of threads with budgets' questions
KEYS: Final = ("name", "tenant", "agent", "model", *KINDS, "tokens", "usd", "per", "enforce")

Enforce = Literal["notice", "refuse", "stop", "ask"]
ENFORCES: Final[tuple[Enforce, ...]] = get_args(Enforce)
COMMANDS: Final = ("stop", "ask")  # values of `enforce` that need commands to runs
ANSWER_TTL_MS: Final = 14 * 86_400_000  # for which an answer counts, since the control topic keeps it for that long
Per = Literal["hour", "day", "month"]
PERIODS: Final = ("hour", "day", "month")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of `unit` (tokens, or nano_usd: 10⁻⁹ US dollars) in each hour, day or month of UTC.

    `tenant` ("": usage without any), `agent` and `model`: whose usage counts; None: all. `labels`: as (kind, label),
    those that a run must have for its usage to count. `enforce`: what happens if
    it is used up: a notice is sent; also new calls of the proxy are refused; also open runs are stopped; or a person is
    asked first.
    """

    name: str
    unit: Literal["tokens", "nano_usd"]
    limit: int
    per: Per
    tenant: str | None = None
    agent: str | None = None
    model: str | None = None
    enforce: Enforce = "notice"
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def scope(self) -> str:
        """A hash of the fields that say which usage counts, and when; equal for budgets with other names or limits."""
        named = json.dumps([self.unit, self.per, self.tenant, self.agent, self.model, self.labels])
        return sha256(named.encode()).hexdigest()[:32]

    def window(self, now: int) -> tuple[int, int]:
        """Return (start, end) of the window that `now` is in, in epoch ms."""
        at = datetime.fromtimestamp(now / 1000, UTC).replace(minute=0, second=0, microsecond=0)
        if self.per == "hour":
            start, end = at, at + timedelta(hours=1)
        elif self.per == "day":
            start = at.replace(hour=0)
            end = start + timedelta(days=1)
        else:
            start = at.replace(day=1, hour=0)
            end = (start + timedelta(days=32)).replace(day=1)
        return int(start.timestamp() * 1000), int(end.timestamp() * 1000)

    def question(self, now: int) -> str:
        """Return the id of the question whether more may be used: one for each window, in a month every 14 days."""
        start, _ = self.window(now)
        named = f"{self.name} {self.unit} {self.limit} {self.per} {start} {(now - start) // ANSWER_TTL_MS}"
        return f"budget_{sha256(named.encode()).hexdigest()[:24]}"

    def counts(
        self, tenant: str | None, agent: str | None, model: str | None, labels: Collection[tuple[str, str]] = ()
    ) -> bool:
        """Return True if a call of this agent to this model would count; `labels`: those of its run.

        A model may be requested as `gpt-4o` and reported as `gpt-4o-2024-08-06`: both names are treated as equal.
        """
        return (
            self.tenant in (None, tenant or "")
            and self.agent in (None, agent)
            and {*self.labels} <= {*labels}
            and (self.model is None or (model is not None and _alike(self.model, model)))
        )


@dataclass(frozen=True, slots=True)
class State:
    """The used part of a budget in the window that began at `start` (epoch ms).

    `by_tenant`: for a budget over several tenants, the usage of each; "" is usage without a tenant, None is the sum of
    the tenants with the least usage.
    """

    budget: Budget
    used: int
    start: int
    end: int
    by_tenant: Mapping[str | None, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The used part of the limit; 1.0 is all of it."""
        return self.used / self.budget.limit

    def exhausted(self, tenant: str | None) -> bool:
        """Return True if nothing is left for a tenant.

        In a budget over several tenants, the usage of each other tenant counts for at most MAX_SHARE of the limit: then
        a tenant alone can't use up the budget for all.
        """
        most, asked = int(self.budget.limit * MAX_SHARE), tenant or ""
        parts = [used if name in (asked, None) else min(used, most) for name, used in self.by_tenant.items()]
        return (sum(parts) if parts else self.used) >= self.budget.limit

    @property
    def reached(self) -> bool:
        """True if nothing is left for one of its tenants."""
        return any(self.exhausted(tenant) for tenant in (self.budget.tenant, *self.by_tenant))

    def at_least(self, before: State | None) -> State:
        """Return the state with at least an earlier state's usage, which may include runs that are not stored yet."""
        if before is None or before.start != self.start:
            return self
        by = dict(self.by_tenant)
        for name, used in before.by_tenant.items():
            if name is not None:
                by[name] = max(used, by.get(name, 0))
        return replace(self, used=max(self.used, before.used), by_tenant=by)

    def with_more(self, more: Mapping[str, int]) -> State:
        """Return the state with additional usage, by tenant ("" for none)."""
        by = {name: self.by_tenant.get(name, 0) + more.get(name or "", 0) for name in {*self.by_tenant, *more}}
        return replace(self, used=self.used + sum(more.values()), by_tenant=by if self.budget.tenant is None else {})

    def over(self, now: int) -> bool:
        """Return True if its window is over, and another has begun."""
        return now >= self.end

    def notices(self, now: int) -> list[NoticeRecord]:
        """Return a notice for each level that is reached. Its id is the same each time it is made, by any process."""
        return [self._notice(level, now) for level in LEVELS if self.used * 100 >= self.budget.limit * level]

    def _notice(self, level: int, now: int) -> NoticeRecord:
        budget = self.budget
        data: BudgetReached = {
            "budget": budget.name,
            "level": level,
            "used": self.used,
            "limit": budget.limit,
            "unit": budget.unit,
            "per": budget.per,
            "start": self.start,
            "end": self.end,
        }
        if budget.agent is not None:
            data["agent"] = budget.agent
        if budget.model is not None:
            data["model"] = budget.model
        if budget.labels:
            data["labels"] = dict(budget.labels)
        named = f"{budget.name} {budget.unit} {budget.limit} {budget.per} {self.start} {level}"
        notice_id = f"budget_{sha256(named.encode()).hexdigest()[:32]}"
        if budget.enforce == "ask" and level == max(LEVELS):
            notice_id = data["answer_id"] = budget.question(now)
        notice: NoticeRecord = {"v": VERSION, "id": notice_id, "type": BUDGET_REACHED, "at": now, "data": {**data}}
        if budget.tenant:
            notice["tenant"] = budget.tenant
        return notice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call: allowed, or the budgets that are used up. `asks`: a person may still allow it."""

    allowed: bool
    exhausted: tuple[State, ...] = ()
    asks: bool = False


def thread_of(budget: Budget) -> tuple[str, str]:
    """Return the thread of a budget's question: its id, and its name."""
    name = QUESTIONS + budget.name
    return thread_uuid(name, budget.tenant or None)[0], name


class BudgetAnswers:
    """The answer to the newest question of each budget. `take` is called in the order of the topic."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        asking = [budget for budget in budgets if budget.enforce == "ask"]
        self._of_thread = {(budget.tenant or None, thread_of(budget)[0]): budget for budget in asking}
        self._first: dict[str, tuple[str, Command, bool]] = {}  # by the budget's name: question, answer, approval

    def take(self, command: Command, now: int) -> Command | None:
        """Note an answer. Return the first answer to its question; None if no budget asks that now.

        An answer without the question that it is for was given before anybody asked, and does not count.
        """
        budget = self._of_thread.get((command.tenant, command.thread_id))
        payload = {} if budget is None else command.payload
        if budget is None or payload["answer_id"] != budget.question(now) or "asked" not in payload:
            return None
        first = self._first.get(budget.name)
        if first is None or first[0] != payload["answer_id"]:
            first = payload["answer_id"], command, approves(payload.get("value"))
            self._first[budget.name] = first
        return first[1]

    def approved(self, budget: Budget, now: int) -> bool | None:
        """Return whether people allowed more than the budget; None if no one has answered, or it does not ask."""
        first = self._first.get(budget.name)
        return None if first is None or first[0] != budget.question(now) else first[2]


def parse(text: str, enforce: Enforce = "notice") -> tuple[Budget, ...]:
    """Return the budgets of a JSON list of objects with KEYS; `name`, `per`, and `tokens` or `usd` are required.

    `enforce`: the default for entries without it. Raises ValueError, which names the wrong entry.
    """
    return entries(text, lambda row: _budget(row, enforce), lambda budget: same_name(budget.name), "budgets", BUDGETS)


def _budget(row: Any, default: Enforce) -> Budget:
    if type(row) is not dict or row.keys() - {*KEYS}:
        raise ValueError(f"an object with {', '.join(KEYS)} is expected")
    name, per = name_of(row), row.get("per")
    if per not in PERIODS:
        raise ValueError(f"'per' is any of {', '.join(PERIODS)}")
    for key in ("tenant", "agent", "model", *KINDS):
        if type(row.get(key, "")) is not str:
            raise ValueError(f"{key!r} is a string; leave it out for all")
    enforce = row.get("enforce", default)
    if enforce not in ENFORCES:
        raise ValueError(f"'enforce' is any of {', '.join(ENFORCES)}")
    if ("tokens" in row) == ("usd" in row):
        raise ValueError("either 'tokens' or 'usd' is expected")
    unit: Literal["tokens", "nano_usd"] = "tokens" if "tokens" in row else "nano_usd"
    amount: Any = row.get("tokens", row.get("usd"))
    if type(amount) not in ((int,) if unit == "tokens" else (int, float)) or not 0 < amount < 10**15:
        raise ValueError("'tokens' is an integer, 'usd' a number, and more than 0")
    limit: int = amount if unit == "tokens" else round(amount * NANO)
    names = row.get("tenant"), row.get("agent"), row.get("model")
    labels = tuple((kind, row[kind]) for kind in KINDS if kind in row)
    return Budget(name, unit, max(1, limit), per, *names, enforce, labels)


def _alike(name: str, other: str) -> bool:
    """Return True if two names are of one model: equal, or one is the other followed by a date or `latest`."""
    short, long = sorted((name, other), key=len)
    return name == other or (long.startswith(short) and DATED.fullmatch(long, len(short)) is not None)
