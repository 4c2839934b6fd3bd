"""The values that reading and writing threads return: plain and frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from topics.thread_key import ThreadKey


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The numbers of a batch's records that were new, replaced an older record, or changed nothing.

    `erased`: threads in the batch that are marked as erased; their records were dropped, and count as unchanged.
    `late`: indexes of records that were not stored, since they lack stored events, and contain others. `expired`:
    indexes of records that were not stored since they are older than the retention; they count as unchanged.
    `differing`: responses that were stored with a told cost and another by prices.
    """

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    erased: tuple[ThreadKey, ...] = ()
    late: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()
    differing: int = 0


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
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of its runs, by kind: user, tag, …
    feedback: Sequence[Mapping[str, Any]] = ()  # the newest, in lists that ask for it, that which was asked for alone

    @property
    def key(self) -> ThreadKey:
        """Its id and its tenant."""
        return ThreadKey.of(self.thread_id, self.tenant)


CostKind = Literal["told", "computed", "estimated"]


@dataclass(frozen=True, slots=True)
class CallUsage:
    """The counts and the cost of a response, or of several; a count is None where none was told.

    `cost_usd`: None if it is not known, and `unpriced` is then the reason. `cost_kind`: `told` by the stream or the
    provider, `computed` from prices, `estimated` where the price depends on what is not known. `cost_told_usd` and
    `cost_computed_usd`: both, where they differ by more than 1 %. `prices`: the sources of the costs.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    total_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    cache_audio_read_tokens: int | None = None
    input_image_tokens: int | None = None
    output_image_tokens: int | None = None
    cache_image_read_tokens: int | None = None
    web_searches: int | None = None
    storage_searches: int | None = None
    audio_seconds: int | None = None
    cost_usd: float | None = None
    cost_kind: CostKind | None = None
    cost_told_usd: float | None = None
    cost_computed_usd: float | None = None
    unpriced: str | None = None
    prices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUsage(CallUsage):
    """The usage of a response. Its times count from the end of the previous response, or the turn's beginning.

    `purpose`: of a call beside the answer, as `compaction`. `service_tier`: None for the standard tier.
    """

    model: str | None
    ttft_ms: int | None = None
    duration_ms: int | None = None
    service_tier: str | None = None
    purpose: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage(CallUsage):
    """The usage of a turn, or of a thread.

    `ttft_ms`: of its first response. `estimated_…`: of responses that broke off before their usage was reported, not
    included in the others. `steps`: a turn's responses in order, if there are several.
    """

    ttft_ms: int | None = None
    estimated_tokens: int = 0
    estimated_cost_usd: float | None = None
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
