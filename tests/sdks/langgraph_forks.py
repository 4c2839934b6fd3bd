"""Runs inside an environment with langgraph and this package: a conversation that forks by checkpoints, in each form.

Prints {form: {run_id: what its client had on the screen behind the run}}; what was published is in the spool.
"""

import asyncio
import json
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from turnmill import Publisher

ALL = {"configurable": {"thread_id": "t"}}
FORMS: dict[str, dict[str, Any]] = {
    "checkpoints and values": {"stream_mode": ["checkpoints", "values"]},
    "checkpoints and updates": {"stream_mode": ["updates", "checkpoints"], "subgraphs": True},
    "debug": {"stream_mode": ["debug", "messages", "updates"]},
    "values": {"stream_mode": ["values", "messages"]},
    "events": {},
}


class Client:
    """Somebody who talks to a graph, and goes back to any state that it has had."""

    def __init__(self, publisher: Publisher, form: str) -> None:
        self.publisher, self.form, self.answers = publisher, form, 0
        self.screens: dict[str, list[str]] = {}
        made = StateGraph(MessagesState)
        made.add_node("draft", self.draft)
        made.add_node("answer", self.answer)
        made.add_edge(START, "draft")
        made.add_edge("draft", "answer")
        self.graph = made.compile(checkpointer=InMemorySaver())

    async def draft(self, state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"draft {self.answers}", id=f"draft-{self.answers}")]}

    async def answer(self, state: MessagesState) -> dict[str, Any]:
        if state["messages"][-2].content == "may I?":
            interrupt("may you?")
        self.answers += 1
        return {"messages": [AIMessage(f"answer {self.answers}", id=f"answer-{self.answers}")]}

    async def run(self, name: str, said: str | Command | None, at: dict[str, Any] = ALL) -> dict[str, Any]:
        """-> the config of its last state."""
        given = {"messages": [HumanMessage(said)]} if isinstance(said, str) else said
        body = (
            {"input": {"messages": [{"role": "user", "content": said}]}} if isinstance(said, str) else {"input": None}
        )
        how = FORMS[self.form]
        stream = self.graph.astream(given, at, **how) if how else self.graph.astream_events(given, at, version="v2")
        run_id = f"{self.form}: {name}"
        async with self.publisher.run(
            thread_id=self.form, run_id=run_id, agent_id="a", dialect="langgraph", info={"request": body}
        ) as run:
            async for _ in run.tee(stream):
                pass
        state = await self.graph.aget_state(ALL)
        self.screens[run_id] = [message.content for message in state.values["messages"]]
        return state.config

    async def before(self, name: str, node: str) -> dict[str, Any]:
        """The config of the newest state whose next is this node, and whose last words are these."""
        async for state in self.graph.aget_state_history(ALL):
            messages = state.values.get("messages")
            if state.next == (node,) and (messages[-1].content if messages else "") == name:
                return state.config
        raise AssertionError(name)


async def talk(publisher: Publisher, form: str) -> dict[str, list[str]]:
    client = Client(publisher, form)
    first = await client.run("first", "hi")
    second = await client.run("second", "more")
    await client.run("regenerated", None, await client.before("more", "draft"))
    await client.run("edited", "else", first)
    await client.run("behind the edited", "then")
    await client.run("back again", "why", second)
    await client.run("asked for leave", "may I?")
    await client.run("with leave", Command(resume=True))
    await client.run("regenerated again", None, await client.before("more", "draft"))
    return client.screens


async def main() -> None:
    found = {}
    async with Publisher() as publisher:
        for form in FORMS:
            found[form] = await talk(publisher, form)
    print(json.dumps(found))  # noqa: T201  # its result


if __name__ == "__main__":
    asyncio.run(main())
