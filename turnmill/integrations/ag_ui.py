"""Publish AG-UI's runs while a server makes them, without a web framework. None of AG-UI's packages is imported here.

The middleware of `turnmill.integrations.asgi` publishes responses of a web application; this function takes the events.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from typing import Any, Final, TypeVar

from turnmill.integrations.stream_request import RunIdentity, RunInputs, StreamRequest, from_request, kept
from turnmill.publish.publisher import Publisher
from turnmill.wire.sdk_objects import model

Event = TypeVar("Event")

_of_process: Final = RunInputs()


async def ag_ui_events(
    publisher: Publisher,
    run_input: Any,
    events: AsyncIterable[Event] | Iterable[Event],
    *,
    agent_id: str = "agent",
    thread_id: str | None = None,
    tenant: str | None = None,
) -> AsyncGenerator[Event]:
    """Yield the events of a run unchanged, and publish them: objects of ag-ui-protocol, or dicts.

    Args:
        publisher: An open publisher.
        run_input: The RunAgentInput of the request, or its JSON; thread, run and the user's messages are read from it.
        events: The run's events.
        agent_id: The agent.
        thread_id: The thread, where the client doesn't choose it.
        tenant: The tenant.

    Raises:
        InvalidRecord: The input can't be written as JSON.
    """
    body = model(run_input)
    asked = from_request(StreamRequest({}, {}, body))
    identity = _of_process.named(RunIdentity(thread_id or asked.thread_id, tenant=tenant), body)
    run = publisher.run(
        thread_id=identity.thread_id,
        agent_id=agent_id,
        dialect="ag-ui",
        run_id=identity.run_id,
        tenant=tenant,
        info={"request": kept(body)},
    )
    async with run, aclosing(run.tee(events)) as each:
        async for event in each:
            yield event
