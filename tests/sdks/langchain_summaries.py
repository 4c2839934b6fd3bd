"""Runs inside an environment with langchain and this package: agents whose middleware writes their history anew.

The scripted models answer in this process. Runs are published in several forms, each of them a thread of its own, and
its runs in order; the publisher's broker does not answer, so that they are in its spool. Prints nothing else.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolCall
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from scripted import weather

from turnmill import Publisher

RUNS = 5
FORMS: dict[str, list[str]] = {
    "values, messages, updates": ["values", "messages", "updates"],
    "messages, updates": ["messages", "updates"],
    "values": ["values"],
    "updates": ["updates"],
    "events": [],
}
USAGE = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}


class Scripted(GenericFakeChatModel):
    """A model whose script calls tools; it streams with them, and with its tokens."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        whole = next(self.messages)
        assert isinstance(whole, AIMessage)
        name = f"scripted-{uuid4()}"
        for piece in whole.text.partition(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(piece, id=name))
        calls = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": n}
            for n, call in enumerate(whole.tool_calls)
        ]
        last = {"usage_metadata": whole.usage_metadata, "response_metadata": whole.response_metadata}
        yield ChatGenerationChunk(message=AIMessageChunk("", id=name, tool_call_chunks=calls, **last))


def said(text: str, *calls: ToolCall) -> AIMessage:
    told = {"finish_reason": "tool_calls" if calls else "stop", "model_name": "m"}
    return AIMessage(text, tool_calls=list(calls), usage_metadata=USAGE, response_metadata=told)


def agent(*, tools: bool) -> Any:
    """Each run asks a tool twice, where it has one: then the history is written anew within a run, too."""
    cities = [ToolCall(name="weather", args={"city": city, "days": 2}, id=city) for city in ("Paris", "Rome")]
    answers: list[AIMessage] = []
    for number in range(1, RUNS + 1):
        answers += [said(f"Look at {call['id']}.", call) for call in cities if tools]
        answers.append(said(f"Answer {number}."))
    summaries = Scripted(messages=iter([said("It was said before.")] * 4 * RUNS))
    summarizing = SummarizationMiddleware(model=summaries, trigger=("messages", 4), keep=("messages", 2))
    given = [tool(weather)] if tools else []
    scripted = Scripted(messages=iter(answers))
    return create_agent(scripted, tools=given, middleware=[summarizing], checkpointer=InMemorySaver())


def stream(of: Any, question: str, modes: list[str]) -> AsyncIterator[Any]:
    asked, config = {"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "t"}}
    return of.astream(asked, config, stream_mode=modes) if modes else of.astream_events(asked, config, version="v2")


async def main() -> None:
    async with Publisher() as publisher:
        for form, modes in FORMS.items():
            for tools in (False, True):
                made, thread = agent(tools=tools), f"{form}: {'tools' if tools else 'words'}"
                for number in range(1, RUNS + 1):
                    run = publisher.run(
                        thread_id=thread, agent_id="a", dialect="langgraph", run_id=f"{thread} {number}"
                    )
                    async with run:
                        async for _ in run.tee(stream(made, f"Question {number}?", modes)):
                            pass
    print(json.dumps({}))  # noqa: T201  # its result


if __name__ == "__main__":
    asyncio.run(main())
