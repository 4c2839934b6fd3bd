"""Runs inside an environment with a release of pydantic-ai and this package: agents whose models ask for odd things.

Their runs are published by `agent_events`. Prints {run_id: the SDK's own messages}; the publisher's broker does not
answer, so that what it publishes is in its spool.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from turnmill import Publisher, agent_events

Ask = tuple[str, str]  # name of a tool, arguments


class City(BaseModel):
    """An output."""

    name: str


def plain(model: FunctionModel) -> Agent[None, Any]:
    return with_tools(Agent(model, name="odd", retries=5))


def structured(model: FunctionModel) -> Agent[None, Any]:
    return with_tools(Agent(model, name="odd", output_type=City, retries=5))


def with_tools(agent: Agent[None, Any]) -> Agent[None, Any]:
    @agent.tool_plain
    def known(city: str) -> str:
        """Tell the weather."""
        if city == "Atlantis":
            raise ModelRetry("There is no such place.")
        return f"It rains in {city}."

    return agent


PARIS = ("known", '{"city": "Paris"}')
UNKNOWN = ("unknown", '{"city": "Rome"}')
FINAL = ("final_result", '{"name": "Paris"}')
Make = Callable[[FunctionModel], Agent[None, Any]]
CASES: dict[str, tuple[Make, list[list[Ask] | str]]] = {
    "known beside unknown": (plain, [[PARIS, UNKNOWN], "It rains."]),
    "unknown beside known": (plain, [[UNKNOWN, PARIS], "It rains."]),
    "unknown alone": (plain, [[UNKNOWN], "Nobody knows."]),
    "two unknown, then one known": (plain, [[UNKNOWN, ("other", "{}")], [PARIS], "It rains."]),
    "unknown beside one that fails": (plain, [[("known", '{"city": "Atlantis"}'), UNKNOWN], [PARIS], "It rains."]),
    "wrong arguments beside unknown": (plain, [[("known", '{"town": 1}'), UNKNOWN, PARIS], "It rains."]),
    "unknown beside the output": (structured, [[UNKNOWN, FINAL]]),
    "unknown, then the output": (structured, [[UNKNOWN, PARIS], [PARIS, FINAL]]),
    "the output refused beside unknown": (structured, [[UNKNOWN, ("final_result", "{}")], [FINAL]]),
    "two outputs": (structured, [[FINAL, ("final_result", '{"name": "Rome"}')]]),
}


def scripted(answers: list[list[Ask] | str]) -> FunctionModel:
    script = iter(answers)
    calls = iter(range(100))

    async def model(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        answer = next(script)
        if isinstance(answer, str):
            yield answer
            return
        for place, (name, arguments) in enumerate(answer):
            yield {place: DeltaToolCall(name=name, json_args="", tool_call_id=f"call-{next(calls)}")}
            yield {place: DeltaToolCall(json_args=arguments)}

    return FunctionModel(stream_function=model, model_name="scripted-1")


async def main() -> dict[str, Any]:
    found = {}
    async with Publisher() as publisher:
        for case, (make, answers) in CASES.items():
            last: Any = None
            async for event in agent_events(publisher, make(scripted(answers)), "Go.", thread_id=case, run_id=case):
                last = event
            found[case] = json.loads(last.result.new_messages_json())
    return found


print(json.dumps(asyncio.run(main())))  # noqa: T201  # its result
