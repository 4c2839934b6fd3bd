"""Runs inside an environment with anthropic and this package: an agent's loop over the Messages API, recorded."""

from collections.abc import Callable
from typing import Any

from anthropic import Anthropic, APIStatusError
from anthropic.lib.streaming._messages import accumulate_event
from recorder import QUESTION, Speaker, Task, main
from scripted import weather

Fields = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"name": "weather", "input_schema": SCHEMA}]


def client(task: Task) -> Anthropic:
    return Anthropic(api_key="none", base_url=task.url, max_retries=0)


async def raw(task: Task) -> None:
    """The events of `create(stream=True)`, which the SDK's own reader joins."""
    whole, texts = None, {}

    def note(event: Any, _: Any) -> Any:
        nonlocal whole
        if event.type == "message_start":
            whole = None
            texts.clear()
        whole = accumulate_event(event=event, current_snapshot=whole, json_bufs=texts)
        return whole

    await loop(task, lambda body: client(task).messages.create(**body, stream=True), note)


async def parsed(task: Task) -> None:
    """The events of the SDK's helper: beside the server's own, some that say the same again."""
    await loop(
        task, lambda body: client(task).messages.stream(**body), lambda _, stream: stream.current_message_snapshot
    )


async def loop(task: Task, ask: Callable[[Fields], Any], note: Callable[[Any, Any], Any]) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        body = {"model": "m", "max_tokens": 999, "messages": messages, "tools": TOOLS}
        await task.run.send({"type": "turnmill.request", "request": body})
        try:
            with ask(body) as stream:
                async for event in task.run.tee(stream):
                    whole = note(event, stream)
                    task.made.unfinished = [said for block in whole.content if (said := spoken(block))]
        except APIStatusError as error:
            await task.run.send({"type": "turnmill.error", "status": error.status_code, "body": error.body})
            raise
        task.made.unfinished = []
        used = whole.usage
        read = used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
        calls = [block for block in whole.content if block.type == "tool_use"]
        called = [["tool-call", call.name, call.id, call.input] for call in calls]
        said = [part for block in whole.content if (part := spoken(block))]
        task.made.response([*said, *called], read, used.output_tokens)
        if not calls:
            return
        results = [result(call) for call in calls]
        told = [("error" if block["is_error"] else "success", block) for block in results]
        task.made.results([["tool-return", block["tool_use_id"], block["content"], how] for how, block in told])
        spoke = {"role": "assistant", "content": [block.to_dict() for block in whole.content]}
        messages = [*messages, spoke, {"role": "user", "content": results}]


def spoken(block: Any) -> list[Any] | None:
    match block.type:
        case "thinking":
            return ["thinking", block.thinking]
        case "text":
            return ["text", block.text]
    return None


def result(call: Any) -> Fields:
    block = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**block, "content": weather(**call.input), "is_error": False}
    except ValueError as error:
        return {**block, "content": str(error), "is_error": True}


main(Speaker("raw", "anthropic", raw), Speaker("parsed", "anthropic", parsed))
