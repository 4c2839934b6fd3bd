"""Runs inside an environment with openai-agents and this package: its runner over both of OpenAI's APIs, recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import MessageOutputItem, ReasoningItem, ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI
from recorder import QUESTION, Speaker, Task, main
from scripted import BAD_ENDS, weather

set_tracing_disabled(disabled=True)
OF_THE_MODEL = (MessageOutputItem, ReasoningItem, ToolCallItem)


async def responses(task: Task) -> None:
    await speak(task, OpenAIResponsesModel)


async def chat(task: Task) -> None:
    await speak(task, OpenAIChatCompletionsModel)


async def speak(task: Task, model: Callable[..., Model]) -> None:
    client = AsyncOpenAI(api_key="none", base_url=task.url, max_retries=0)
    agent = Agent(name="weather", model=model(model="m", openai_client=client), tools=[function_tool(weather)])
    result = Runner.run_streamed(agent, QUESTION)
    try:
        async for event in task.run.tee(result.stream_events()):
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                task.made.piece(event.data.delta)
            elif event.type == "run_item_stream_event":
                task.made.unfinished = []
    finally:
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


main(
    # The SDK refuses what a limit has cut short, over this API.
    Speaker("responses", "openai-agents", responses, {"input": QUESTION}, BAD_ENDS | {"cut short"}),
    Speaker("chat", "openai-agents", chat, {"input": QUESTION}),
)
