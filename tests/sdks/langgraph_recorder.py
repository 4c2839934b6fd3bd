"""Runs inside an environment with langgraph and this package: a graph, recorded in the forms that it streams in."""

from functools import partial
from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langchain_made import note
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from recorder import QUESTION, Speaker, Task, main
from scripted import weather

CONFIG = {"configurable": {"thread_id": "t"}}
ASKED = {"messages": [HumanMessage(QUESTION)]}
weather_tool = tool(weather)


def graph(task: Task, api: dict[str, Any]) -> Any:
    """A model and its tools, in a graph that remembers."""
    model = ChatOpenAI(
        model="m", api_key="none", base_url=task.url, max_retries=0, streaming=True, stream_usage=True, **api
    )
    asking = model.bind_tools([weather_tool])

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asking.ainvoke(state["messages"])]}

    made = StateGraph(MessagesState)
    made.add_node("model", call)
    made.add_node("tools", ToolNode([weather_tool], handle_tool_errors=str))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=InMemorySaver())


async def speak(task: Task, api: dict[str, Any], **how: Any) -> None:
    """What `astream` yields in some modes; `astream_events` where none is named."""
    agent = graph(task, api)
    stream = agent.astream(ASKED, CONFIG, **how) if how else agent.astream_events(ASKED, CONFIG, version="v2")
    try:
        async for event in task.run.tee(stream):
            match event:
                case (*_, "messages", (AIMessageChunk() as chunk, _)):
                    task.made.piece(chunk.text)
                case (*_, "updates" | "values", _):
                    task.made.unfinished = []
    finally:
        state = await agent.aget_state(CONFIG)
        for message in state.values["messages"][1:]:
            note(task, message)


RESPONSES = {"use_responses_api": True, "output_version": "responses/v1"}
FORMS = {
    "messages and updates": {"stream_mode": ["messages", "updates"]},
    "values": {"stream_mode": "values"},
    "subgraphs": {"stream_mode": ["messages", "values"], "subgraphs": True},
    "events": {},
}
BODY = {"input": {"messages": [{"role": "user", "content": QUESTION}]}}
main(
    *(Speaker(name, "langgraph", partial(speak, api={}, **how), BODY) for name, how in FORMS.items()),
    Speaker("over Responses", "langgraph", partial(speak, api=RESPONSES, stream_mode=["messages", "updates"]), BODY),
)
