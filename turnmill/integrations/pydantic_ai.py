"""Pydantic AI's runs, published as they stream. Any release from 1.20 on; none is imported here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from turnmill.publisher import Publisher

Response = TypeVar("Response")


async def agent_events(
    publisher: Publisher,
    agent: Any,
    prompt: Any,
    *,
    thread_id: str,
    agent_id: str | None = None,
    run_id: str | None = None,
    tenant: str | None = None,
    **options: Any,
) -> AsyncGenerator[Any]:
    """The events of `agent.run_stream_events(prompt, **options)`, unchanged, published on the way.

    `agent_id` is the agent's name where it is not given. The last event holds the run's result.
    """
    # The provider is left out: the run's result names it where the SDK's own messages do.
    info = {"agent_name": agent.name, "model_name": getattr(getattr(agent, "model", None), "model_name", None)}
    run = publisher.run(
        thread_id=thread_id,
        agent_id=agent_id or agent.name or "agent",
        dialect="pydantic-ai",
        run_id=run_id,
        tenant=tenant,
        info=info,
    )
    async with run, aclosing(run.tee(agent.run_stream_events(prompt, **options))) as events:
        async for event in events:
            yield event


def published_response(
    publisher: Publisher,
    response: Any,
    *,
    thread_id: str,
    agent_id: str,
    dialect: str = "vercel-ai",
    run_id: str | None = None,
    tenant: str | None = None,
    info: Mapping[str, Any] | None = None,
) -> Any:
    """A streaming response of Starlette, as the UI adapters give it, published as it streams. -> the same response.

    `info` may hold the body of the request (`request`), from which the user's words are read. Where the
    server gives up the response, the run ends as disconnected.
    """
    run = publisher.run(
        thread_id=thread_id, agent_id=agent_id, dialect=dialect, run_id=run_id, tenant=tenant, info=info
    )
    body = response.body_iterator

    async def teed() -> AsyncIterator[Any]:
        async with run, aclosing(run.tee_bytes(body)) as chunks:
            try:
                async for chunk in chunks:
                    yield chunk
            except (asyncio.CancelledError, GeneratorExit):  # a server does this when the client has gone
                await run.end("disconnected")
                raise

    response.body_iterator = teed()
    return response
