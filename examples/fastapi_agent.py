# /// script
# requires-python = ">=3.11"
# dependencies = ["turnmill", "fastapi", "uvicorn", "pydantic-ai-slim[ui]==2.68.0"]
# ///
"""An agent behind FastAPI whose streams are published: `useChat` of the AI SDK can talk to it.

    turnmill up && turnmill topics apply && turnmill worker &
    uvicorn examples.fastapi_agent:app

The two lines of Turnmill are the publisher in the lifespan and the middleware. Without a broker the agent works all
the same: what it says waits in .turnmill/spool. The model is a stand-in that needs no key: it asks for the weather
and tells it, word by word.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.ui.vercel_ai import VercelAIAdapter

from turnmill import Publisher, PublishStreams

WORDS = int(os.environ.get("EXAMPLE_WORDS", "40"))
PAUSE = float(os.environ.get("EXAMPLE_PAUSE", "0.02"))  # seconds between words: 50 tokens/s

publisher = Publisher()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Keep the publisher open as long as the server."""
    async with publisher:
        yield


async def weather_model(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Call the tool, then speak."""
    answered = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not answered:
        yield {0: DeltaToolCall(name="weather", json_args='{"city":', tool_call_id=f"call-{len(messages)}")}
        yield {0: DeltaToolCall(json_args=' "Paris"}')}
        return
    for number in range(WORDS):
        await asyncio.sleep(PAUSE)
        yield f"{answered[0].content if number == 0 else f'word {number}'} "


agent = Agent(FunctionModel(stream_function=weather_model, model_name="stand-in"), name="Weather")


@agent.tool_plain
def weather(city: str) -> str:
    """Tell the weather."""
    return f"It rains in {city}, as ever; 7 °C."


app = FastAPI(lifespan=lifespan)
app.add_middleware(PublishStreams, publisher=publisher, agent_id="weather")


@app.post("/chat")
async def chat(request: Request) -> Response:
    """Answer a request of `useChat` with its UI message stream."""
    return await VercelAIAdapter.dispatch_request(request, agent=agent)
