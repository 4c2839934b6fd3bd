"""Runs inside an environment with langgraph: a graph's state takes exported histories, and its model goes on with them.

python langchain_loader.py FILE: {name: [message]} -> prints {name: null | what went wrong}
"""

import json
import sys
from pathlib import Path

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from provider import goes_on, provider
from pydantic import TypeAdapter

MESSAGES = TypeAdapter(list[AnyMessage])


def graph(url: str):  # a name of LangGraph's insides
    """One model in a graph that remembers."""
    model = ChatOpenAI(model="m", api_key="none", base_url=url, max_retries=0)
    made = StateGraph(MessagesState)
    made.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    made.add_edge(START, "model")
    return made.compile(checkpointer=InMemorySaver())


def problem(name: str, messages: list[dict]) -> str | None:
    config = {"configurable": {"thread_id": name}}
    try:
        loaded = MESSAGES.validate_python(messages)
        if messages:
            agent.update_state(config, {"messages": loaded}, as_node="model")
        held = agent.get_state(config).values.get("messages", [])
        if held != loaded:
            return f"the state holds {held!r:.500}"
        state = agent.invoke({"messages": [*done(loaded), ("user", "And now?")]}, config)
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    said = state["messages"][-1].text
    return None if said == "Going on." else f"went on with {said!r}"


def done(loaded: list) -> list:
    """The results of open calls."""
    answered = {message.tool_call_id for message in loaded if isinstance(message, ToolMessage)}
    last = next((message for message in reversed(loaded) if isinstance(message, AIMessage)), AIMessage(""))
    calls = [call["id"] for call in [*last.tool_calls, *last.invalid_tool_calls]]
    return [ToolMessage("done", tool_call_id=call_id) for call_id in calls if call_id not in answered]


with provider(goes_on) as url:
    agent = graph(url)
    histories = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({name: problem(name, messages) for name, messages in histories.items()}))  # noqa: T201
