"""Publish Pydantic AI's runs as they stream. Works with releases from 1.20 on; Pydantic AI is not imported here."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from turnmill.capture.refusal import stopped_end
from turnmill.control.stopping import RunStopped
from turnmill.publish.publisher import Publisher

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
    """Yield the events of `agent.run_stream_events(prompt, **options)` unchanged, and publish them.

    Args:
        publisher: An open publisher.
        agent: The agent.
        prompt: The user's prompt.
        thread_id: The conversation.
        agent_id: By default the agent's name.
        run_id: By default a new UUID.
        tenant: The tenant.
        options: Arguments of `run_stream_events`.

    The last event holds the run's result.
    """
    # The provider is left out, since the run's result contains it if the SDK's messages name it.
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
    """Return the same streaming response of Starlette, published as it streams, as the UI adapters return it.

    `info` may contain the body of the request (`request`), from which the user's messages are read. If the server
    abandons the response, the run ends as disconnected.
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
            except RunStopped as stopped:
                await run.end("aborted")
                yield stopped_end(dialect, str(stopped))
            except (asyncio.CancelledError, GeneratorExit):  # a server does this if the client disconnects
                await run.end("disconnected")
                raise

    response.body_iterator = teed()
    return response
