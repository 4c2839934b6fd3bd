"""Runs inside an environment with langgraph and this package: graphs and chains, published by our callback handler."""

import asyncio
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_made import note
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from recorder import QUESTION, Speaker, Task, main
from scripted import BAD_ENDS, weather

import turnmill

weather_tool = tool(weather)
handler = turnmill.langchain_handler(agent_id="weather")


def model(task: Task, **api: Any) -> Any:
    chat = ChatOpenAI(model="m", api_key="none", base_url=task.url, max_retries=0, streaming=True, **api)
    return chat.bind_tools([weather_tool])


def graph(task: Task, api: dict[str, Any]) -> Any:
    asking = model(task, stream_usage=True, **api)

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asking.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asking.ainvoke(state["messages"])]}

    made = StateGraph(MessagesState)
    made.add_node("model", RunnableLambda(call, acall))
    made.add_node("tools", ToolNode([weather_tool], handle_tool_errors=str))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=InMemorySaver())


async def speak(task: Task, how: str, api: dict[str, Any]) -> None:
    """By one of a graph's methods."""
    agent, asked = graph(task, api), {"messages": [HumanMessage(QUESTION)]}
    config = {"configurable": {"thread_id": task.name}, "callbacks": [handler]}
    try:
        match how:
            case "invoke":
                await asyncio.to_thread(agent.invoke, asked, config)
            case "ainvoke":
                await agent.ainvoke(asked, config)
            case "stream":
                await asyncio.to_thread(lambda: list(agent.stream(asked, config)))
            case "events":
                async for _ in agent.astream_events(asked, config, version="v2"):
                    pass
    finally:
        for message in agent.get_state(config).values["messages"][1:]:
            note(task, message)


async def chain(task: Task) -> None:
    """A loop of one's own, around a chain of a prompt and a model."""
    prompt = ChatPromptTemplate.from_messages([("system", "Answer briefly."), ("placeholder", "{said}")])
    asking = prompt | model(task, stream_usage=True)

    async def loop(question: str) -> str:
        said: list[Any] = [HumanMessage(question)]
        while True:
            answer = await asking.ainvoke({"said": said})
            note(task, AIMessage(**answer.model_dump(exclude={"type"})))
            said.append(answer)
            if not answer.tool_calls:
                return answer.text
            for call in answer.tool_calls:
                try:
                    result = await weather_tool.ainvoke(call)
                except ValueError as error:
                    result = ToolMessage(str(error), tool_call_id=call["id"], status="error")
                note(task, result)
                said.append(result)

    await RunnableLambda(loop, name="loop").ainvoke(
        QUESTION, {"configurable": {"thread_id": task.name}, "callbacks": [handler]}
    )


RESPONSES = {"use_responses_api": True, "output_version": "responses/v1"}
main(
    *(
        Speaker(how, "langgraph", partial(speak, how=how, api={}), helper=True)
        for how in ("invoke", "ainvoke", "stream", "events")
    ),
    Speaker("over Responses", "langgraph", partial(speak, how="ainvoke", api=RESPONSES), helper=True),
    Speaker("chain", "langgraph", chain, fails=BAD_ENDS, helper=True),
)
