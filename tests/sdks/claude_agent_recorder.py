"""Runs inside an environment with claude-agent-sdk and this package: the program it brings along, recorded.

The program itself runs, with a home of its own, and asks the scripted server. It goes on by itself where an answer was
cut short, and asks again without streaming where a stream breaks off.
"""

import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from recorder import QUESTION, Speaker, Task, main
from scripted import CASES, Answer, weather

import turnmill

NAME = "mcp__places__weather"  # as the model calls it


@tool("weather", "Tells the weather", {"city": str, "days": int})
async def weather_tool(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"content": [{"type": "text", "text": weather(**arguments)}]}
    except ValueError as error:
        return {"content": [{"type": "text", "text": str(error)}], "is_error": True}


def options(task: Task, folder: str, **more: Any) -> ClaudeAgentOptions:
    variables = {
        "ANTHROPIC_BASE_URL": task.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": folder,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_AUTOUPDATER": "1",
        "HOME": folder,
    }
    places = create_sdk_mcp_server("places", tools=[weather_tool])
    return ClaudeAgentOptions(
        mcp_servers={"places": places}, allowed_tools=[NAME], tools=[], cwd=folder, env=variables, model="m", **more
    )


def teed(task: Task, asked: ClaudeAgentOptions) -> AsyncIterator[Any]:
    return task.run.tee(query(prompt=QUESTION, options=asked))


def queried(task: Task, asked: ClaudeAgentOptions) -> AsyncIterator[Any]:
    return turnmill.claude_query(prompt=QUESTION, options=asked, thread_id=task.name, agent_id="weather")


async def received(task: Task, asked: ClaudeAgentOptions) -> AsyncIterator[Any]:
    made = turnmill.claude_client(ClaudeSDKClient(asked), thread_id=task.name, agent_id="weather")
    async with made as client:
        await client.query(QUESTION)
        async for message in client.receive_response():
            yield message
            if isinstance(message, ResultMessage) and message.is_error:  # `query` raises what a client only tells
                raise RuntimeError(message.result)


async def speak(task: Task, messages: Callable[..., AsyncIterator[Any]], *, pieces: bool) -> None:
    lines: list[tuple[str, list[Any]]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            async for message in messages(task, options(task, folder, include_partial_messages=pieces)):
                match message:
                    case StreamEvent(event={"delta": {"text": text}}):
                        task.made.piece(text)
                    case AssistantMessage(error=None):
                        task.made.unfinished = []
                        lines.append((message.message_id, parts(message)))
                    case UserMessage(content=list()):
                        # The SDK does not say that a prompt is the program's own.
                        prompts = [["user-prompt", *said[1:]] if said[0] == "text" else said for said in parts(message)]
                        lines.append(("request", prompts))
                    case ResultMessage():
                        end = message
        finally:
            for identity, found in groupby(lines, lambda line: line[0]):
                kind = "request" if identity == "request" else "response"
                task.made.messages.append((kind, [part for _, said in found for part in said]))
    read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    task.made.input, task.made.output = sum(end.usage[name] for name in read), end.usage["output_tokens"]


def parts(message: Any) -> list[list[Any]]:
    return [said(block) for block in message.content]


def said(block: Any) -> list[Any]:
    match block:
        case TextBlock():
            return ["text", block.text]
        case ThinkingBlock():
            return ["thinking", block.thinking]
        case ToolUseBlock():
            return ["tool-call", block.name, block.id, block.input]
        case ToolResultBlock():
            return ["tool-return", block.tool_use_id, block.content, "error" if block.is_error else "success"]
    raise AssertionError(block)


def named(answer: Answer) -> Answer:
    """The same, with calls of the program's own name for the tool."""
    return replace(answer, calls=tuple(replace(call, name=NAME) for call in answer.calls))


REFUSED = Answer(refused=400)
GOES_ON = {"cut short": (Answer(text="is, as ever."),), "broken off": (REFUSED,), "broken off in a call": (REFUSED,)}
PLAYED = {case: tuple(map(named, [*answers, *GOES_ON.get(case, ())])) for case, answers in CASES.items()}
WAYS = {"whole": partial(speak, messages=teed, pieces=False), "partial": partial(speak, messages=teed, pieces=True)}
HELPERS = {
    "query": partial(speak, messages=queried, pieces=False),
    "client": partial(speak, messages=received, pieces=True),
}
main(
    *(Speaker(name, "claude-code", way, {"prompt": QUESTION}, cases=PLAYED) for name, way in WAYS.items()),
    *(Speaker(name, "claude-code", way, cases=PLAYED, helper=True) for name, way in HELPERS.items()),
)
