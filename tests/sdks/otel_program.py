"""An agent of Pydantic AI, or calls by OpenAI's SDK, that export their spans: run inside an environment with them.

python otel_program.py pydantic-ai|openinference ENDPOINT
"""

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from provider import Reply, provider

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def answer(path: str, body: dict[str, Any]) -> Reply:
    """Two parallel calls, then the answer."""
    last = any(message["role"] == "tool" for message in body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": "Both are sunny." if last else "Let me check."}
    if not last:
        message["tool_calls"] = [
            {
                "id": f"call_{city}",
                "type": "function",
                "function": {"name": "weather", "arguments": json.dumps({"city": city})},
            }
            for city in ("Paris", "Oslo")
        ]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if last else "tool_calls"}
    usage = {
        "prompt_tokens": 40 if last else 20,
        "completion_tokens": 8 if last else 10,
        "total_tokens": 48 if last else 30,
    }
    head = {"id": f"chatcmpl-{1 + last}", "object": "chat.completion", "created": 1, "model": "scripted-1"}
    return Reply({**head, "choices": [choice], "usage": usage})


async def by_pydantic_ai(client: AsyncOpenAI) -> None:
    """An agent with a tool."""
    from pydantic_ai import Agent  # not in every environment
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all()
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, name="weather", system_prompt="You are a weather bot.")
    agent.tool_plain(weather)
    await agent.run("Weather in Paris and Oslo?", conversation_id="otel-pydantic-ai")


def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: sunny"


async def by_openinference(client: AsyncOpenAI) -> None:
    """The same in two calls, each a trace by itself."""
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    messages: list[Any] = [{"role": "user", "content": "Weather in Paris and Oslo?"}]
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}]
    with using_session("otel-openinference"):
        first = (
            (await client.chat.completions.create(model="scripted", messages=messages, tools=tools)).choices[0].message
        )
        messages.append(first.model_dump(exclude_none=True))
        for call in first.tool_calls or ():
            result = weather(**json.loads(call.function.arguments))  # type: ignore[union-attr]  # no custom tools here
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        await client.chat.completions.create(model="scripted", messages=messages, tools=tools)


def main() -> None:
    """Run it, and export all spans."""
    from opentelemetry import trace

    way, endpoint = sys.argv[1:]
    traces = TracerProvider(resource=Resource.create({"service.name": "weather"}))
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(traces)
    with provider(answer) as address:
        client = AsyncOpenAI(base_url=f"{address}/v1", api_key="none")
        asyncio.run({"pydantic-ai": by_pydantic_ai, "openinference": by_openinference}[way](client))
    traces.shutdown()


if __name__ == "__main__":
    main()
