"""Runs inside an environment with google-adk and this package: how runs end, and agents in tools, with our plugin.

Prints {session: its invocation ids}. The publisher's broker does not answer: what it publishes is in its spool.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai.types import Content, FunctionCall, Part
from scripted import QUESTION

from turnmill import AdkPlugin

PIECES = ("It ", "rains.")
assert issubclass(AdkPlugin, BasePlugin)
plugin = AdkPlugin(name="turnmill.AdkPlugin")  # as `adk web --extra_plugins` makes it


class Scripted(BaseLlm):
    """Two pieces, then the whole; asks a tool first, where it has one."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # as BaseLlm has it
    ) -> AsyncGenerator[LlmResponse, None]:
        if self.model == "refuses":
            raise ValueError("The scripted model refuses.")
        asked = llm_request.contents[-1].parts or []
        if llm_request.tools_dict and not any(part.function_response for part in asked):
            call = FunctionCall(name="forecast", id="call_1", args={"request": "Paris?"})
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))
            return
        for piece in PIECES:
            yield LlmResponse(content=said(piece), partial=True)
            await asyncio.sleep(0.05)
        yield LlmResponse(content=said("".join(PIECES)))


def said(text: str) -> Content:
    return Content(role="model", parts=[Part(text=text)])


def runner(model: str = "speaks", **more: Any) -> InMemoryRunner:
    agent = Agent(name="weather", model=Scripted(model=model), **more)
    return InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[plugin]))


async def events(of: InMemoryRunner, session: str) -> AsyncGenerator[Any]:
    await of.session_service.create_session(app_name="app", user_id="u", session_id=session)
    asked = Content(role="user", parts=[Part(text=QUESTION)])
    config = RunConfig(streaming_mode=StreamingMode.SSE)
    async with aclosing(of.run_async(user_id="u", session_id=session, new_message=asked, run_config=config)) as found:
        async for event in found:
            yield event


async def to_its_end(of: InMemoryRunner, session: str) -> None:
    async with aclosing(events(of, session)) as found:
        async for _ in found:
            pass


async def left(session: str, *, behind_the_answer: bool) -> None:
    async with aclosing(events(runner(), session)) as found:
        async for event in found:
            if event.is_final_response() and not event.partial if behind_the_answer else event.partial:
                break


async def main() -> None:
    await to_its_end(runner(), "whole")
    with suppress(ValueError):
        await to_its_end(runner("refuses"), "refused")
    await left("left behind its answer", behind_the_answer=True)
    await left("left before", behind_the_answer=False)
    task = asyncio.create_task(to_its_end(runner(), "cancelled"))
    await asyncio.sleep(0.08)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    forecast = Agent(name="forecast", description="Tells the weather.", model=Scripted(model="speaks"))
    await to_its_end(runner(tools=[AgentTool(forecast)]), "an agent as a tool")


asyncio.run(main())
print(json.dumps(None))  # noqa: T201  # its result
