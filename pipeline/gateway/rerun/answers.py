"""Two answers to one question, to be compared by text, tools, tokens, cost and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pipeline.dialects.asked_again import answered
from pipeline.policies.prices import Prices
from pipeline.stores.threads.rows import record_rows
from pipeline.turns.spoken_text import spoken, tools_called
from pipeline.turns.tokens import NANO
from topics.json_text import Fields
from topics.turn_record import TurnRecord

MESSAGE_MEMBERS: Final = ("message", "detail", "error", "reason")  # members of an interruption, the most detailed first


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the turn's first response, even if interrupted. `cost_usd` None: unknown."""

    model: str | None
    status: str
    text: str
    tools: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    duration_ms: int | None
    problem: str | None = None  # the provider's error
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """An answer and its new version. `run_id`: of the new version, if it was published."""

    thread_id: str
    turn_id: str
    run_id: str | None
    before: Answer
    after: Answer

    def document(self) -> Fields:
        """Return the pair as JSON."""
        return asdict(self)


def answer_of(record: TurnRecord, prices: Prices) -> Answer:
    """Return the answer in an agent turn's record."""
    turn = record["turn"] or {}
    found = answered(turn)
    first = found[0] if found else next((m for m in turn["messages"] if m.get("message_type") == "response"), {})
    alone = {"messages": [first]}
    usage = next((dict(row) for row in record_rows(record, None, prices).usage if row["position"] == 0), {})
    cost = usage.get("cost_nano_usd")
    ended = turn.get("interruption") or {}
    timings: Sequence[Any] = record.get("timings") or ({},)
    return Answer(
        model=first.get("model_name") or usage.get("model"),
        status=record["status"],
        text="".join(text for kind, text in spoken(alone) if kind == "said"),
        tools=tuple(tools_called(alone)),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cost_usd=None if cost is None else cost / NANO,
        duration_ms=timings[0].get("duration_ms"),
        problem=next((one for name in MESSAGE_MEMBERS if isinstance(one := ended.get(name), str)), None),
    )
