"""Runs inside an environment with pydantic-ai, openai and this package: a run of each API whose usage has every count.

And one of AG-UI's events, whose types the environment has, too. The publisher's broker does not answer, so that what it
publishes is in its spool.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import (
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
)
from every_count import CACHED, KEPT, READ, THOUGHTS, WRITTEN
from provider import Reply, provider
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from scripted import CASES, QUESTION
from scripted_wires import reply

from turnmill import Publisher, agent_events

(COUNTED,) = CASES["every count"]
MODELS: dict[str, type[Model]] = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}


def counted(path: str, body: dict[str, Any]) -> Reply:
    return reply(path, COUNTED, 1, whole=not body.get("stream"))


async def events() -> AsyncIterator[Any]:
    """A run of AG-UI: its server has counted all that the protocol's types know."""
    ids = {"thread_id": "t", "run_id": "r"}
    yield RunStartedEvent(**ids)
    yield TextMessageStartEvent(message_id="m", role="assistant")
    yield TextMessageContentEvent(message_id="m", delta="It rains.")
    yield TextMessageEndEvent(message_id="m")
    counts = {"input_tokens": READ, "output_tokens": WRITTEN, "total_tokens": READ + WRITTEN}
    counts |= {"reasoning_tokens": THOUGHTS, "cached_input_tokens": CACHED, "cache_write_input_tokens": KEPT}
    yield RunFinishedEvent(**ids, usage=[TokenUsage(model="m", provider="openai", **counts)])


async def main() -> dict[str, Any]:
    made = {}
    with provider(counted) as url:
        async with Publisher() as publisher:
            for api, model in MODELS.items():
                agent = Agent(model("m", provider=OpenAIProvider(base_url=url, api_key="none")))  # type: ignore[call-arg]  # of both kinds of models
                run = f"{api}: every count"
                async for _ in agent_events(publisher, agent, QUESTION, thread_id=run, run_id=run):
                    pass
                made[run] = {"dialect": "pydantic-ai"}
            made["ag-ui: every count"] = {"dialect": "ag-ui"}
            async with publisher.run(thread_id="ag-ui: every count", agent_id="weather", dialect="ag-ui") as published:
                async for _ in published.tee(events()):
                    pass
    return made


print(json.dumps(asyncio.run(main())))  # noqa: T201  # its result
