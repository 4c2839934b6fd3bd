"""Budgets over HTTP: how much is used, and whether a program may start a run."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Reader, ReaderOrSender, alternatives
from pipeline.gateway.budgets.memory import Budgets, TheBudgets
from pipeline.gateway.routing import Labels, Tenant
from pipeline.policies.budgets import NANO, State
from pipeline.turns.times import iso

router = APIRouter(prefix="/v1/budgets", tags=["budgets"])


class BudgetState(BaseModel):
    """A budget, and how much of it is used."""

    name: str
    tenant: str | None = Field(description="The tenant whose use counts; null: all tenants.")
    agent: str | None
    model: str | None
    labels: dict[str, str] = Field(description="Those of the runs whose use counts, by kind; empty: all.")
    unit: str = Field(description="`tokens` or `usd`.")
    per: str = Field(description="`hour`, `day` or `month`, of UTC.")
    limit: float
    used: float
    ratio: float = Field(description="Used share of the limit; 1: used up.")
    start: str
    end: str


class BudgetList(BaseModel):
    """The budgets that the caller may see."""

    budgets: list[BudgetState]
    as_of: str | None = Field(description="When the store was queried.")


class BudgetCheck(BaseModel):
    """The answer of a check.

    `allowed`: no budget that counts this call is used up; `exhausted`: the used-up ones that the caller may see.
    """

    allowed: bool
    exhausted: list[str]
    as_of: str | None


Name = Annotated[str | None, Query(max_length=500)]


@router.get("", summary="Budgets, and how much of each is used")
async def list_budgets(memory: TheBudgets, principal: Reader, tenant: Tenant = None) -> BudgetList:
    """List the budgets. A token that is bound to a tenant sees the budgets of that tenant alone."""
    bound = principal.bounded(tenant)
    await memory.known()
    mine = [state for state in memory.states.values() if bound is None or state.budget.tenant == bound]
    return BudgetList(budgets=[shown_state(shown) for shown in mine], as_of=_as_of(memory))


@router.get("/check", summary="Whether a program may start a run", openapi_extra=alternatives("read", "publish"))
async def check_budgets(
    memory: TheBudgets,
    principal: ReaderOrSender,
    labels: Annotated[Labels, Query()],
    agent: Name = None,
    model: Name = None,
    tenant: Tenant = None,
) -> BudgetCheck:
    """Check before a run starts; runs under way go on. Answered from memory, some seconds old."""
    bound = principal.bounded(tenant)
    await memory.known()
    verdict = memory.verdict(bound, memory.counting(bound, agent, () if model is None else (model,), labels.pairs))
    shown = [state.budget.name for state in verdict.exhausted if principal.tenant in (None, state.budget.tenant)]
    return BudgetCheck(allowed=verdict.allowed, exhausted=shown, as_of=_as_of(memory))


def _as_of(memory: Budgets) -> str | None:
    return iso(memory.at) if memory.at else None


def shown_state(state: State) -> BudgetState:
    """Return a budget's state as it is shown."""
    budget = state.budget
    unit, scale = ("tokens", 1) if budget.unit == "tokens" else ("usd", NANO)
    return BudgetState(
        **{name: getattr(budget, name) for name in ("name", "tenant", "agent", "model", "per")},
        labels=dict(budget.labels),
        unit=unit,
        limit=budget.limit / scale,
        used=state.used / scale,
        ratio=round(state.ratio, 6),
        start=iso(state.start),
        end=iso(state.end),
    )
