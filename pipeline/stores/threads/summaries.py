"""The values that reading and writing threads return: plain and frozen."""

from __future__ import annotations

from dataclasses import dataclass

from topics.thread_key import ThreadKey


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The numbers of a batch's records that were new, replaced an older record, or changed nothing.

    `erased`: threads in the batch that are marked as erased; their records were dropped, and count as unchanged.
    `late`: indexes of records that were not stored, since they lack stored events, and contain others. `expired`:
    indexes of records that were not stored since they are older than the retention; they count as unchanged.
    """

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    erased: tuple[ThreadKey, ...] = ()
    late: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """One line of a list of threads. Times in epoch ms; without a title, `title` is the first prompt's beginning."""

    thread_id: str
    external_id: str | None
    title: str | None
    agents: tuple[str, ...]  # their names
    turns: int
    status: str | None  # of the last turn
    tokens: int
    created_at: int
    updated_at: int
    tenant: str | None = None
    cost_usd: float | None = None  # as far as prices are known; None if none is
    model: str | None = None  # of the last response, and how long the agent's turn with it took
    duration_ms: int | None = None

    @property
    def key(self) -> ThreadKey:
        """Its id and its tenant."""
        return ThreadKey.of(self.thread_id, self.tenant)


@dataclass(frozen=True, slots=True)
class StepUsage:
    """The usage of a response. Its times count from the end of the previous response, or the turn's beginning."""

    model: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    ttft_ms: int | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The usage of a turn.

    `cost_usd`: None if no price is known; `ttft_ms`: of its first response. `estimated_…`: of responses that broke off
    before their usage was reported, not included in the others. `prices`: the sources of the costs. `steps`: its
    responses in order, if there are several.
    """

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None
    ttft_ms: int | None
    estimated_tokens: int = 0
    estimated_cost_usd: float | None = None
    prices: tuple[str, ...] = ()
    steps: tuple[StepUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Some threads; `cursor`: of the next page; `sorted_among`: how many were sorted, None if all were."""

    threads: tuple[ThreadSummary, ...]
    cursor: str | None
    sorted_among: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of the store's rows: `runs` counts pairs (thread, run), `interrupted` counts turns."""

    threads: int
    turns: int
    runs: int
    interrupted: int
