"""The helpers for Pydantic AI, with stand-ins of its shape; the SDK itself: tests/sdks/check_publishing.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.settings import Settings
from tests.support.spools import away, spooled
from turnmill.integrations.pydantic_ai import agent_events, published_response
from turnmill.publish.publisher import Publisher

EVENTS = [{"event_kind": "part_delta", "index": 0, "delta": {"content_delta": str(n)}} for n in range(5)]
DELTAS = [{"type": "text-delta", "id": "t", "delta": str(n)} for n in range(5)]
CHUNKS = [f'data: {{"type":"text-delta","id":"t","delta":"{n}"}}\n\n' for n in range(5)]

Records = list[dict[str, Any]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)
    return away(tmp_path)


class StandIn:
    """An agent that says EVENTS, and fails behind them if it is to; it keeps how it was called."""

    name = "Weather"
    model = SimpleNamespace(model_name="stand-in")

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    async def run_stream_events(self, prompt: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        self.calls.append((prompt, options))
        for event in EVENTS:
            yield event
        if self.error:
            raise self.error


def runs(records: Records) -> dict[str, tuple[list[Any], str | None]]:
    """run_id -> (its events, how it ended)."""
    found: dict[str, tuple[list[Any], str | None]] = {}
    for record in records:
        events, _ = found.get(record["run_id"], ([], None))
        found[record["run_id"]] = (events + record["events"], record.get("end"))
    return found


async def test_an_agents_events_are_passed_on_and_published(settings: Settings) -> None:
    agent = StandIn()
    async with Publisher(settings) as publisher:
        whole = agent_events(publisher, agent, "Rain?", thread_id="t", run_id="whole", tenant="acme", deps=7)
        seen = [event async for event in whole]
        named = agent_events(publisher, agent, "Snow?", thread_id="t", run_id="named", agent_id="w-1")
        async with aclosing(named) as events:
            assert await anext(events) is EVENTS[0]
        failing = agent_events(publisher, StandIn(ValueError("model")), "?", thread_id="t", run_id="failed")
        with pytest.raises(ValueError, match="model"):
            [event async for event in failing]
    assert all(a is b for a, b in zip(seen, EVENTS, strict=True))
    assert agent.calls == [("Rain?", {"deps": 7}), ("Snow?", {})]
    records = spooled(settings)
    assert runs(records) == {
        "whole": (EVENTS, "complete"),
        "named": (EVENTS[:1], "aborted"),
        "failed": (EVENTS, "error"),
    }
    first = {record["run_id"]: record for record in reversed(records)}
    assert (first["whole"]["agent_id"], first["whole"]["tenant"], first["named"]["agent_id"]) == (
        "Weather",
        "acme",
        "w-1",
    )
    assert first["whole"]["run"] == {"agent_name": "Weather", "model_name": "stand-in", "external_id": "t"}


async def test_a_response_is_passed_on_and_published(settings: Settings) -> None:
    """Also one whose server gives it up: it is cancelled while it waits, or closed."""
    waits = asyncio.Event()

    async def said(*, all_of_it: bool = True) -> AsyncIterator[str]:
        for chunk in CHUNKS[: 5 if all_of_it else 2]:
            yield chunk
        if not all_of_it:
            waits.set()
            await asyncio.sleep(60)

    async def failing() -> AsyncIterator[str]:
        yield CHUNKS[0]
        raise ValueError("model")

    async with Publisher(settings) as publisher:

        def response(run_id: str, body: AsyncIterator[str]) -> AsyncIterator[str]:
            made = SimpleNamespace(body_iterator=body, status_code=200)
            info = {"request": {"messages": []}}
            given = published_response(publisher, made, thread_id="t", agent_id="w", run_id=run_id, info=info)
            assert given is made
            return given.body_iterator

        async def read(body: AsyncIterator[str]) -> list[str]:
            return [chunk async for chunk in body]

        seen = await read(response("whole", said()))
        cancelled = asyncio.create_task(read(response("cancelled", said(all_of_it=False))))
        await waits.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        closed = response("closed", said())
        await anext(closed)
        await closed.aclose()  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="model"):
            await read(response("failed", failing()))
    assert all(a is b for a, b in zip(seen, CHUNKS, strict=True))
    records = spooled(settings)
    assert runs(records) == {
        "whole": (DELTAS, "complete"),
        "cancelled": (DELTAS[:2], "disconnected"),
        "closed": (DELTAS[:1], "disconnected"),
        "failed": (DELTAS[:1], "error"),
    }
    assert records[0]["run"] == {"request": {"messages": []}, "external_id": "t"}
