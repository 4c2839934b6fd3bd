"""Runs inside an environment with openai-agents and this package: its runner over both of OpenAI's APIs, recorded; and
published by our tracing processor.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_trace_processors,
)
from agents.items import MessageOutputItem, ReasoningItem, ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI
from recorder import QUESTION, Speaker, Task, main
from scripted import BAD_ENDS, CASES, weather

import turnmill

set_trace_processors([turnmill.openai_agents_processor()])
OF_THE_MODEL = (MessageOutputItem, ReasoningItem, ToolCallItem)


async def responses(task: Task) -> None:
    await speak(task, OpenAIResponsesModel)


async def chat(task: Task) -> None:
    await speak(task, OpenAIChatCompletionsModel)


def agent_of(task: Task, model: Callable[..., Model]) -> Agent[None]:
    client = AsyncOpenAI(api_key="none", base_url=task.url, max_retries=0)
    return Agent(name="weather", model=model(model="m", openai_client=client), tools=[function_tool(weather)])


async def traced(task: Task, model: Callable[..., Model]) -> None:
    """Streamed: of a run that fails, the SDK says only then how far it came."""
    agent, config = agent_of(task, model), RunConfig(group_id=task.name)
    result = Runner.run_streamed(agent, QUESTION, run_config=config)
    try:
        async for _ in result.stream_events():
            pass
    finally:
        note(task, result)


async def traced_whole(task: Task, model: Callable[..., Model], *, sync: bool) -> None:
    agent, config = agent_of(task, model), RunConfig(group_id=task.name)
    if sync:
        note(task, await asyncio.to_thread(Runner.run_sync, agent, QUESTION, run_config=config))
    else:
        note(task, await Runner.run(agent, QUESTION, run_config=config))


async def speak(task: Task, model: Callable[..., Model]) -> None:
    agent = agent_of(task, model)
    result = Runner.run_streamed(agent, QUESTION, run_config=RunConfig(tracing_disabled=True))
    try:
        async for event in task.run.tee(result.stream_events()):
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                task.made.piece(event.data.delta)
            elif event.type == "run_item_stream_event":
                task.made.unfinished = []
    finally:
        note(task, result)


def note(task: Task, result: Any) -> None:
    for kind, items in groupby(result.new_items, lambda item: isinstance(item, OF_THE_MODEL)):
        task.made.messages.append(("response" if kind else "request", [said(item) for item in items]))
    task.made.history = result.to_input_list()
    used = result.context_wrapper.usage
    task.made.input, task.made.output = used.input_tokens, used.output_tokens


def said(item: Any) -> list[Any]:
    match item:
        case MessageOutputItem():
            return ["text", "".join(content.text for content in item.raw_item.content)]
        case ReasoningItem():
            return ["thinking", item.raw_item.summary[0].text]
        case ToolCallItem():
            return ["tool-call", item.raw_item.name, item.raw_item.call_id, json.loads(item.raw_item.arguments)]
        case ToolCallOutputItem():
            return ["tool-return", item.raw_item["call_id"], item.raw_item["output"], "success"]
    raise AssertionError(item)


# A trace holds nothing of the first call of a model, where that fails.
ANSWERED = {case: said for case, said in CASES.items() if not (said[0].broken or said[0].short)}
WHOLE = {case: said for case, said in CASES.items() if case not in BAD_ENDS | {"cut short"}}
API = {"Responses": OpenAIResponsesModel, "Chat Completions": OpenAIChatCompletionsModel}
main(
    # The SDK refuses what a limit has cut short, over this API.
    Speaker("responses", "openai-agents", responses, {"input": QUESTION}, BAD_ENDS | {"cut short"}),
    Speaker("chat", "openai-agents", chat, {"input": QUESTION}),
    *(
        Speaker(
            f"traced {api}",
            "openai-agents",
            partial(traced, model=model),
            fails=BAD_ENDS,
            cases=ANSWERED if model is OpenAIResponsesModel else CASES,
            helper=True,
        )
        for api, model in API.items()
    ),
    *(
        Speaker(
            f"traced {api}, {'run_sync' if sync else 'run'}",
            "openai-agents",
            partial(traced_whole, model=model, sync=sync),
            cases=WHOLE,
            helper=True,
        )
        for api, model in API.items()
        for sync in (True, False)
    ),
)
