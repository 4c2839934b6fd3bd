"""Runs inside an environment with openai and this package: an agent's loop over each API, recorded. See `recorder`."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from openai import APIStatusError, OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from recorder import QUESTION, Speaker, Task, main
from scripted import BAD_ENDS, weather

Fields = dict[str, Any]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
FUNCTION = {"name": "weather", "parameters": PARAMETERS, "strict": True}
TOOLS = [{"type": "function", "function": FUNCTION}]


def client(task: Task) -> OpenAI:
    return OpenAI(api_key="none", base_url=task.url, max_retries=0)


def result(arguments: str) -> str:
    try:
        return weather(**json.loads(arguments))
    except ValueError as error:
        return f"error: {error}"


async def raw_responses(task: Task) -> None:
    """The events of `create(stream=True)`."""
    await responses(task, lambda body: client(task).responses.create(**body, stream=True))


async def parsed_responses(task: Task) -> None:
    """The events of the SDK's helper, which hold more than the server sent."""
    await responses(task, lambda body: client(task).responses.stream(**body))


async def responses(task: Task, ask: Callable[[Fields], Any]) -> None:
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        body = {"model": "m", "input": items, "tools": [{"type": "function", **FUNCTION}]}
        await task.run.send({"type": "turnmill.request", "request": body})
        whole = None
        async with refusals(task, {"type": "turnmill.error"}):
            with ask(body) as stream:
                async for event in task.run.tee(stream):
                    if event.type == "response.output_text.delta":
                        task.made.piece(event.delta)
                    if event.type in ("response.completed", "response.incomplete"):
                        whole = event.response
        task.made.unfinished = []
        task.made.response([said(item) for item in whole.output], whole.usage.input_tokens, whole.usage.output_tokens)
        calls = [item for item in whole.output if item.type == "function_call"]
        if not calls:
            return
        told = [(call.call_id, result(call.arguments)) for call in calls]
        task.made.results([["tool-return", call_id, text, "success"] for call_id, text in told])
        outputs = [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in told]
        items = [*items, *(item.to_dict() for item in whole.output), *outputs]


async def raw_chat(task: Task) -> None:
    """The chunks of `create(stream=True)`."""
    await chat(task, lambda body: client(task).chat.completions.create(**body, stream=True))


async def parsed_chat(task: Task) -> None:
    """The events of the SDK's helper, which hold the chunks and say the same again."""
    await chat(task, lambda body: client(task).chat.completions.stream(**body))


async def chat(task: Task, ask: Callable[[Fields], Any]) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        body = {"model": "m", "messages": messages, "stream_options": {"include_usage": True}, "tools": TOOLS}
        await task.run.send({"object": "turnmill.request", "request": body})
        state = ChatCompletionStreamState()
        async with refusals(task, {"object": "turnmill.error"}):
            with ask(body) as stream:
                async for event in task.run.tee(stream):
                    chunk = getattr(event, "chunk", event)
                    if not isinstance(chunk, ChatCompletionChunk):
                        continue
                    state.handle_chunk(chunk)
                    task.made.unfinished = spoken(state.current_completion_snapshot.choices[0].message)
        whole = state.current_completion_snapshot
        message = whole.choices[0].message
        calls = message.tool_calls or []
        task.made.unfinished = []
        called = [["tool-call", c.function.name, c.id, json.loads(c.function.arguments)] for c in calls]
        task.made.response([*spoken(message), *called], whole.usage.prompt_tokens, whole.usage.completion_tokens)
        if not calls:
            return
        told = [(call.id, result(call.function.arguments)) for call in calls]
        task.made.results([["tool-return", call_id, text, "success"] for call_id, text in told])
        results = [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in told]
        messages = [*messages, message.to_dict(), *results]


def spoken(message: Any) -> list[list[Any]]:
    texts = [("thinking", getattr(message, "reasoning_content", None)), ("text", message.content)]
    return [[kind, text] for kind, text in texts if text]


@asynccontextmanager
async def refusals(task: Task, event: Fields) -> AsyncIterator[None]:
    """Publish what a server says instead of an answer."""
    try:
        yield
    except APIStatusError as error:
        await task.run.send({**event, "status": error.status_code, "body": error.body})
        raise


def said(item: Any) -> list[Any]:
    match item.type:
        case "reasoning":
            return ["thinking", item.summary[0].text]
        case "message":
            return ["text", "".join(content.text for content in item.content)]
        case "function_call":
            return ["tool-call", item.name, item.call_id, json.loads(item.arguments)]
    raise AssertionError(item)


main(
    Speaker("raw responses", "openai-responses", raw_responses),
    Speaker("parsed responses", "openai-responses", parsed_responses),
    Speaker("raw chat", "openai-chat", raw_chat),
    Speaker("parsed chat", "openai-chat", parsed_chat, fails=BAD_ENDS | {"cut short"}),
)
