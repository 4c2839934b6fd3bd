# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim==2.68.0"]
# ///
"""Record examples/fleet: real Pydantic AI agents run the conversations of conversations.json with scripted models.

    uv run examples/record.py

Each run becomes one file: Pydantic AI's own events (`pydantic-ai`), or what its Vercel adapter streams (`vercel-ai`)
with the data-sys-* parts that an application adds. What models and tools say stands in conversations.json; ids, order,
deltas and usage are the SDK's own. The hand-made recordings in fleet/trouble are left alone.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai import _utils as pydantic_ai_utils
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.vercel_ai import VercelAIEventStream
from pydantic_core import to_json

HERE = Path(__file__).parent
DAY = 1768899600000  # 2026-01-20T09:00:00Z
WORDS = re.compile(r"\s*\S+|\s+$")

Step = list[list[Any]]


class Clock:
    """What the SDK takes for `datetime`, so that messages carry the time of the conversation."""

    now_ms = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        cls.now_ms += 180
        return datetime.fromtimestamp(cls.now_ms / 1000, tz)


pydantic_ai_utils.datetime = Clock  # type: ignore[attr-defined]


class Scripted(FunctionModel):
    """A model that says its steps, one for each request, under the name of another."""

    def __init__(self, name: str, provider: str, steps: list[Step]) -> None:
        self._provider = provider
        self._steps = deque(steps)
        super().__init__(stream_function=self._stream, model_name=name)

    @property
    def system(self) -> str:
        return self._provider

    async def _stream(self, _: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        for index, (kind, *rest) in enumerate(self._steps.popleft()):
            if kind == "say":
                for word in WORDS.findall(rest[0]):
                    yield word
            elif kind == "think":
                for word in WORDS.findall(rest[0]):
                    yield {index: DeltaThinkingPart(content=word)}
            else:
                arguments = json.dumps(rest[1], ensure_ascii=False)
                yield {
                    index: DeltaToolCall(name=rest[0], tool_call_id=f"call_{crc32((rest[0] + arguments).encode()):08x}")
                }
                for start in range(0, len(arguments), 12):
                    yield {index: DeltaToolCall(json_args=arguments[start : start + 12])}


def tools_for(steps: list[Step]) -> list[Tool[None]]:
    """Return a tool for each name that is called; it gives what the script says for those arguments."""
    said = [part for step in steps for part in step if part[0] in ("call", "retry")]
    results = {(name, json.dumps(arguments)): (kind, result) for kind, name, arguments, result in said}

    def tool(name: str) -> Tool[None]:
        def call(**arguments: Any) -> Any:
            kind, result = results[name, json.dumps(arguments)]
            if kind == "retry":
                raise ModelRetry(result)
            return result

        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        return Tool.from_schema(call, name=name, description=name, json_schema=schema)

    return [tool(name) for name in dict.fromkeys(name for name, _ in results)]


async def record(agent: dict[str, Any], turn: dict[str, Any], history: list[ModelMessage], run_id: str) -> Any:
    """One run -> (its file's lines, its result)."""
    model = Scripted(agent["model_name"], agent["provider_name"], turn["steps"])
    runner = Agent(model, name=agent["agent_name"], tools=tools_for(turn["steps"]))
    events, result = [], None
    async with runner.run_stream_events(turn["prompt"], message_history=history) as stream:
        async for event in stream:
            events.append(event)
            result = getattr(event, "result", result) if event.event_kind == "agent_run_result" else result
    if agent["wire"] == "pydantic-ai":
        return [to_json(as_published(event, run_id)).decode() for event in events], result

    async def again() -> AsyncIterator[Any]:
        for event in events:
            yield event

    adapter = VercelAIEventStream(sdk_version=6)
    chunks = [chunk async for chunk in adapter.encode_stream(adapter.transform_stream(again()))]
    usages = deque(m.usage for m in result.new_messages() if isinstance(m, ModelResponse))
    return [line for chunk in chunks for line in (*telemetry(chunk, usages), chunk.strip(), "")], result


def as_published(event: Any, run_id: str) -> Any:
    """Return an event as its SDK serializes it; the last one holds the run's result."""
    if event.event_kind != "agent_run_result":
        return event
    result = event.result
    return {
        "result": {
            "messages": json.loads(result.all_messages_json()),
            "new_message_index": len(result.all_messages()) - len(result.new_messages()),
            "usage": result.usage,
            "run_id": run_id,
            "output": result.output,
        },
        "event_kind": "agent_run_result",
    }


def telemetry(chunk: str, usages: deque[Any]) -> list[str]:
    """Return an application's telemetry of the step that ends here."""
    if '"type":"finish-step"' not in chunk:
        return []
    usage = usages.popleft()
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    latency = 240 + 18 * usage.output_tokens
    parts = [
        {"type": "data-sys-usage", "data": counts | {"total_tokens": sum(counts.values())}},
        {"type": "data-sys-latency", "data": {"model_latency_ms": latency, "total_latency_ms": latency + 35}},
    ]
    return [line for part in parts for line in (f"data: {json.dumps(part, separators=(',', ':'))}", "")]


async def main() -> None:
    """Write all files anew."""
    script = json.loads((HERE / "conversations.json").read_text())
    for number, conversation in enumerate(script["conversations"]):
        agent, history = script["agents"][conversation["agent_id"]], []
        for index, turn in enumerate(conversation["turns"], 1):
            run_id = f"{conversation['thread_id']}-{index}"
            started = Clock.now_ms = DAY + number * 97_000 + index * 45_000
            lines, result = await record(agent, turn, history, run_id)
            history = result.all_messages()
            folder = HERE / "fleet" / conversation["agent_id"]
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{run_id}.{'jsonl' if agent['wire'] == 'pydantic-ai' else 'sse'}"
            file.write_text("\n".join(lines).rstrip("\n") + ("\n" if agent["wire"] == "pydantic-ai" else "\n\n"))
            context = {
                "dialect": agent["wire"],
                "thread_id": conversation["thread_id"],
                "run_id": run_id,
                "agent_id": conversation["agent_id"],
                **{key: agent[key] for key in ("agent_name", "model_name", "provider_name")},
                "started_at": started,
                **({"tenant": agent["tenant"]} if "tenant" in agent else {}),
                "request": {"messages": [{"role": "user", "parts": [{"type": "text", "text": turn["prompt"]}]}]},
            }
            file.with_name(f"{file.name}.run.json").write_text(json.dumps(context, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
