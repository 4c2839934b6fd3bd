"""Runs inside an environment with a release of pydantic-ai and this package: one run by each helper of the publisher.

Prints {run_id: the SDK's own messages}. Its broker does not answer, so that what it publishes is in the spool.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.requests import Request

from turnmill import Publisher, agent_events, published_response

QUESTION = "What's the weather in Paris and Rome?"
CHAT = {
    "id": "chat",
    "trigger": "submit-message",
    "messages": [{"id": "q", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}],
}


async def model(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
    """Think, call two tools, tell their answers."""
    answers = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not answers:
        yield {0: DeltaThinkingPart(content="Two cities, ")}
        yield {0: DeltaThinkingPart(content="two calls.")}
        for number, city in enumerate(("Paris", "Rome"), 1):
            yield {number: DeltaToolCall(name="weather", json_args='{"city":', tool_call_id=f"call-{number}")}
            yield {number: DeltaToolCall(json_args=f' "{city}"}}')}
        return
    for part in answers:
        yield f"{part.content} "
    yield "That's all."


agent = Agent(FunctionModel(stream_function=model, model_name="stand-in"), name="weather")


@agent.tool_plain
def weather(city: str) -> str:
    """Tell the weather."""
    return f"It rains in {city}, as ever; 7 °C."


def request() -> Request:
    """What `useChat` posts."""
    body = json.dumps(CHAT).encode()
    headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
    scope = {"type": "http", "method": "POST", "path": "/chat", "query_string": b"", "headers": headers}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(scope, receive)


async def main() -> dict[str, Any]:
    """-> each run's messages."""
    found: dict[str, Any] = {}

    async with Publisher() as publisher:
        last = None
        async for event in agent_events(publisher, agent, QUESTION, thread_id="chat", run_id="events"):
            last = event
        found["events"] = json.loads(last.result.all_messages_json())

        def keep(result: Any) -> None:
            found["response"] = json.loads(result.all_messages_json())

        response = await VercelAIAdapter.dispatch_request(request(), agent=agent, on_complete=keep)
        original: list[Any] = []

        async def kept(body: Any) -> AsyncIterator[Any]:
            async for chunk in body:
                original.append(chunk)
                yield chunk

        response.body_iterator = kept(response.body_iterator)
        published = published_response(
            publisher, response, thread_id="chat", agent_id="weather", run_id="response", info={"request": CHAT}
        )
        seen = [chunk async for chunk in published.body_iterator]
        assert seen == original
        assert len(seen) > 10
    return found


print(json.dumps(asyncio.run(main())))  # noqa: T201  # its result
