"""Sends a request to a model, turns the answer into events of its wire, assembles them as a worker does, publishes.

Two answers to the same question are compared by text, tools, tokens, cost and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import uuid4

import aiohttp

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.asked_again import answered
from pipeline.gateway.proxy.client import reason
from pipeline.gateway.rerun.choosing import Request
from pipeline.policies.prices import Prices
from pipeline.stores.threads.rows import record_rows
from pipeline.turns.searched_text import spoken, tools_called
from pipeline.turns.tokens import NANO
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.capture.exchange import Exchange
from turnmill.clock import now_ms
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import VERSION

ANSWER_TIMEOUT: Final = 600.0  # seconds that one answer may take
MESSAGE_MEMBERS: Final = ("message", "detail", "error", "reason")  # members of an interruption, the most detailed first


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The events of an answer with their times (epoch ms), and how the run ended."""

    run_id: str
    events: Sequence[tuple[int, Fields]]
    end: str


async def call(session: aiohttp.ClientSession, request: Request) -> ReadAnswer:
    """Send a request, and read its answer to the end. A failure is reported among the events."""
    exchange = Exchange(request.dialect, request.body, request.headers)
    heard = [(now_ms(), event) for event in exchange.asked()]
    headers = {**request.headers, "content-type": "application/json", "accept-encoding": "gzip, deflate"}
    how = "finished"
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            async with session.post(
                request.url, data=json_text.dumps(request.body).encode(), headers=headers, allow_redirects=False
            ) as answer:
                names = {name.lower(): value for name, value in answer.headers.items()}
                heard += ((now_ms(), event) for event in exchange.answered(answer.status, names))
                async for chunk in answer.content.iter_any():
                    heard += ((now_ms(), event) for event in exchange.data(chunk))
        heard += ((now_ms(), event) for event in exchange.finished())
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        how = "failed"
        heard += ((now_ms(), event) for event in exchange.failed(f"{type(error).__name__}: {reason(error)}"))
    return ReadAnswer(str(uuid4()), heard, exchange.verdict(how).end)


def assembled(heard: ReadAnswer, request: Request, before: TurnRecord) -> TurnRecord:
    """Return the record of the answer's turn, as a worker makes it."""
    start = heard.events[0][0]
    envelope: dict[str, Any] = {
        "v": VERSION,
        "thread_id": before["thread_id"],
        "run_id": heard.run_id,
        "agent_id": before["agent_id"],
        "dialect": request.dialect,
        "seq": 0,
        "ts": start,
        "dt": [at - start for at, _ in heard.events],
        "events": [event for _, event in heard.events],
        "run": facts(request, before),
        "end": heard.end,
    }
    if "tenant" in before:
        envelope["tenant"] = before["tenant"]
    records, _ = assemble(DIALECTS[request.dialect], [envelope])
    return next(record for record in records if record["turn"] is not None and record["turn"]["turn_type"] == "agent")


async def publish(
    publisher: Publisher, heard: ReadAnswer, request: Request, key: ThreadKey, before: TurnRecord
) -> None:
    """Publish an answer as another version of the answer `before`."""
    run = publisher.run(
        thread_id=key.thread_id,
        agent_id=before["agent_id"],
        dialect=request.dialect,
        run_id=heard.run_id,
        tenant=key.tenant,
        info=facts(request, before),
    )
    run.verdict = heard.end
    async with run:
        for at, event in heard.events:
            await run.send(event, at=at)


def facts(request: Request, before: TurnRecord) -> Mapping[str, Any]:
    """Return the facts that the new run is published with."""
    return {"model_name": request.model, "provider_name": request.provider, "replaces": before["run_id"]}


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
    response = answered(turn)
    first = response[0] if response else next((m for m in turn["messages"] if m.get("message_type") == "response"), {})
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
        problem=next((message for name in MESSAGE_MEMBERS if isinstance(message := ended.get(name), str)), None),
    )
