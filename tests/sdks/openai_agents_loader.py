"""Runs inside an environment with openai-agents: its session takes exported items, and its runner goes on with them.

python openai_agents_loader.py FILE: {name: [item]} -> prints {name: null | what went wrong}
"""

import asyncio
import json
import sys
import typing
from pathlib import Path
from typing import Any

# Types of requests say Iterable, which pydantic checks item by item as somebody reads: that nobody would do here.
typing.Iterable = list

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, TResponseInputItem, set_tracing_disabled  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402
from provider import Reply, goes_on, provider  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

ITEMS = TypeAdapter(list[TResponseInputItem])
AND_NOW = {"role": "user", "content": "And now?"}
asked: list[Any] = []


def play(path: str, body: dict[str, Any]) -> Reply:
    asked.append(body["input"])
    return goes_on(path, body)


async def problem(agent: Agent, items: list[dict]) -> str | None:
    asked.clear()
    answered = [item["call_id"] for item in items if str(item.get("type")).endswith("_output")]
    open_calls = [item for item in items if item.get("call_id") and item["call_id"] not in answered]
    done = [{"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "done"} for call in open_calls]
    given = [*items, *done, AND_NOW]
    try:
        ITEMS.validate_python(items, strict=True)
        session = SQLiteSession("check")
        await session.add_items(items)
        if await session.get_items() != items:
            return "its session gives back other items"
        result = await Runner.run(agent, given)
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    if asked != [given]:
        return f"the model was asked {asked!r} instead of {given!r}"
    return None if result.final_output == "Going on." else f"went on with {result.final_output!r}"


async def problems(histories: dict[str, list[dict]]) -> dict[str, str | None]:
    set_tracing_disabled(disabled=True)
    with provider(play) as url:
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            agent = Agent(name="check", model=OpenAIResponsesModel(model="m", openai_client=client))
            return {name: await problem(agent, items) for name, items in histories.items()}


print(json.dumps(asyncio.run(problems(json.loads(Path(sys.argv[1]).read_text())))))  # noqa: T201  # its result
