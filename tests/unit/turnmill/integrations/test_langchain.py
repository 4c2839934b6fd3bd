"""The callback handler, with a stand-in of LangChain's base; LangChain itself: tests/sdks/check_frameworks.py."""

import asyncio
import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

import turnmill
from tests.unit.turnmill.integrations.conftest import Heard
from turnmill.errors import CallerError

Runs = Callable[[], list[Heard]]

CALL = {"name": "weather", "id": "c1", "args": {"city": "Paris"}, "type": "tool_call"}
GRAPH = {"thread_id": "chat-1", "langgraph_step": 1, "langgraph_path": ("__pregel_pull", "model")}


class Message:
    """As LangChain's messages, as far as the handler looks."""

    def __init__(self, kind: str, content: str, **fields: Any) -> None:
        self._fields = {"type": kind, "content": content, "id": None, **fields}
        self.type, self.id = kind, self._fields["id"]
        self.tool_calls = fields.get("tool_calls", [])
        if "tool_call_id" in fields:
            self.tool_call_id = fields["tool_call_id"]

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._fields


class GraphInterrupt(Exception):  # its name there
    pass


@pytest.fixture(autouse=True)
def langchain(monkeypatch: pytest.MonkeyPatch) -> ContextVar[Any]:
    """A stand-in of langchain_core, with the config that is current in a chain."""
    callbacks, config = ModuleType("langchain_core.callbacks"), ModuleType("langchain_core.runnables.config")
    callbacks.BaseCallbackHandler = type("BaseCallbackHandler", (), {"raise_error": True})  # type: ignore[attr-defined]
    current: ContextVar[Any] = ContextVar("current", default=None)
    config.var_child_runnable_config = current  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain_core", ModuleType("langchain_core"))
    monkeypatch.setitem(sys.modules, callbacks.__name__, callbacks)
    monkeypatch.setitem(sys.modules, config.__name__, config)
    return current


def answer(message: Message | None, text: str = "") -> Any:
    generation = SimpleNamespace(text=text, **({"message": message} if message else {}))
    return SimpleNamespace(generations=[[generation]])


def spoken_by(
    handler: Any, parent: Any, prompt: list[Message], *said: Message, name: str = "model", **more: Any
) -> None:
    """A call of a model that streams all but the last of what it says."""
    run = uuid4()
    handler.on_chat_model_start({"name": name}, [prompt], run_id=run, parent_run_id=parent, **more)
    for piece in said[:-1]:
        handler.on_llm_new_token("", chunk=SimpleNamespace(message=piece), run_id=run, parent_run_id=parent)
    handler.on_llm_end(answer(said[-1]), run_id=run, parent_run_id=parent)


def test_a_chain_with_tools(heard: Runs, langchain: ContextVar[Any]) -> None:
    handler = turnmill.langchain_handler(tenant="acme")
    assert (handler.run_inline, handler.raise_error) == (True, True)
    root, tool = uuid4(), uuid4()
    question = Message("human", "Rain?")
    handler.on_chain_start(None, {"question": "Rain?"}, run_id=root, name="RunnableSequence", metadata={})
    token = langchain.set({"configurable": {"thread_id": 17}})
    calls = Message("ai", "", id="m1", tool_calls=[CALL])
    spoken_by(
        handler, root, [Message("system", "Be brief."), question], Message("AIMessageChunk", "Let", id="m1"), calls
    )
    handler.on_tool_start(
        {"name": "weather"}, "…", run_id=tool, parent_run_id=root, name="weather", inputs=CALL["args"]
    )
    handler.on_tool_end("7 °C", run_id=tool, parent_run_id=root)
    again = Message("ai", "", id="m2", tool_calls=[{**CALL, "id": "c2"}])
    spoken_by(handler, root, [question, calls], again)
    by_hand = Message("tool", "8 °C", tool_call_id="c2")
    spoken_by(handler, root, [question, calls, again, by_hand], Message("ai", "No rain.", id="m3"))
    langchain.reset(token)
    handler.on_chain_end("No rain.", run_id=root)
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.first["tenant"], run.end) == (
        "17",
        "RunnableSequence",
        "acme",
        "complete",
    )
    assert run.first["run_id"] == str(root)
    assert run.said() == [
        [("user-prompt", "Rain?")],
        [("tool-call", {"city": "Paris"})],
        [("tool-return", "7 °C")],
        [("tool-call", {"city": "Paris"})],
        [("tool-return", "8 °C")],
        [("text", "No rain.")],
    ]


def test_a_graph(heard: Runs) -> None:
    """Its nodes, a graph inside one of them, and what a node asks of a person."""
    handler = turnmill.langchain_handler(thread_id="else", agent_id="weather")
    root, node, inner, inner_node, waiting = (uuid4() for _ in range(5))
    old, question = Message("ai", "Hello.", id="m0"), Message("human", "Rain?", id="q1")
    model = {**GRAPH, "langgraph_node": "model", "langgraph_checkpoint_ns": "model:1"}
    handler.on_chain_start(None, {"messages": [("user", "Rain?")]}, run_id=root, name="LangGraph", metadata=GRAPH)
    handler.on_chain_start(
        None, {"messages": [old, question]}, run_id=node, parent_run_id=root, name="model", metadata=model
    )
    calls = Message("ai", "", id="m1", tool_calls=[CALL])
    spoken_by(handler, node, [old, question], Message("AIMessageChunk", "", id="m1"), calls, metadata=model)
    handler.on_chain_end({"messages": [calls]}, run_id=node)

    tools = {**GRAPH, "langgraph_node": "tools", "langgraph_checkpoint_ns": "tools:2"}
    handler.on_chain_start(None, {}, run_id=inner, parent_run_id=root, name="tools", metadata=tools)
    below = {**GRAPH, "langgraph_node": "model", "langgraph_checkpoint_ns": "tools:2|model:3"}
    asked = Message("human", "Paris?", id="q2")
    handler.on_chain_start(
        None, {"messages": [asked]}, run_id=inner_node, parent_run_id=inner, name="model", metadata=below
    )
    spoken_by(handler, inner_node, [asked], Message("ai", "7 °C", id="m2"), metadata=below)
    handler.on_chain_end({"messages": [Message("ai", "7 °C", id="m2")]}, run_id=inner_node)
    result = Message("tool", "7 °C", tool_call_id="c1")
    handler.on_chain_end(SimpleNamespace(update={"messages": [result]}), run_id=inner)

    person = {**GRAPH, "langgraph_node": "person", "langgraph_checkpoint_ns": "person:4"}
    handler.on_chain_start(None, {}, run_id=waiting, parent_run_id=root, name="person", metadata=person)
    handler.on_custom_event("progress", {"done": 1}, run_id=waiting)
    handler.on_chain_error(GraphInterrupt([{"value": "ok?", "id": "i"}]), run_id=waiting, parent_run_id=root)
    handler.on_chain_end({"messages": [old, question, calls, result], "city": "Paris"}, run_id=root)
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.end) == ("chat-1", "weather", "complete")
    assert run.said() == [[("user-prompt", "Rain?")], [("tool-call", {"city": "Paris"})], [("tool-return", "7 °C")]]
    beside = {m["event_type"]: m["event_data"] for m in run.turns()[1]["messages"] if m["message_type"] == "system"}
    assert [message["content"] for message in beside.pop("custom:langgraph.subagent")["messages"]] == ["Paris?", "7 °C"]
    assert beside == {
        "custom:langgraph.interrupt": {"value": "ok?", "id": "i"},
        "custom:langgraph.custom": {"type": "progress", "data": {"done": 1}},
        "custom:langgraph.state": {"city": "Paris"},
    }


def test_functions_as_a_graph(heard: Runs) -> None:
    """`@entrypoint` and `@task`: no state has messages."""
    handler = turnmill.langchain_handler()
    root, flow, first, second = (uuid4() for _ in range(4))
    entry = {**GRAPH, "langgraph_node": "flow", "langgraph_checkpoint_ns": "flow:1"}
    handler.on_chain_start(None, "Rain?", run_id=root, name="LangGraph", metadata=GRAPH)
    handler.on_chain_start(None, "Rain?", run_id=flow, parent_run_id=root, name="flow", metadata=entry)
    question, calls = Message("human", "Rain?"), Message("ai", "", id="m1", tool_calls=[CALL])
    result, last = Message("tool", "7 °C", tool_call_id="c1"), Message("ai", "No rain.", id="m2")
    for run_id, task, prompt, said in ((first, "2", [question], calls), (second, "3", [question, calls, result], last)):
        metadata = {
            "langgraph_node": "ask",
            "langgraph_checkpoint_ns": f"flow:1|ask:{task}",
            "langgraph_path": ("__pregel_push", ("__pregel_pull", "flow"), 0, True),
        }
        handler.on_chain_start(None, {}, run_id=run_id, parent_run_id=flow, name="ask", metadata=metadata)
        spoken_by(handler, run_id, prompt, said, metadata=metadata)
        handler.on_chain_end(said, run_id=run_id)
    handler.on_chain_end(last, run_id=flow)
    handler.on_chain_end("No rain.", run_id=root)
    (run,) = heard()
    assert run.said() == [
        [("user-prompt", "Rain?")],
        [("tool-call", {"city": "Paris"})],
        [("tool-return", "7 °C")],
        [("text", "No rain.")],
    ]


@pytest.mark.parametrize(
    ("error", "end"),
    [(ValueError("no such model"), "error"), (asyncio.CancelledError(), "aborted"), (GeneratorExit(), "aborted")],
)
def test_how_a_run_ends_that_fails(heard: Runs, error: BaseException, end: str) -> None:
    """A model alone, in the middle of its answer."""
    handler = turnmill.langchain_handler(thread_id="chat-1")
    run_id = uuid4()
    asked = {"run_id": run_id, "metadata": {"session_id": "s-1"}}
    handler.on_chat_model_start({"name": "ChatOpenAI"}, [[Message("human", "Rain?")]], **asked)
    handler.on_llm_new_token(
        "No", chunk=SimpleNamespace(message=Message("AIMessageChunk", "No", id="m")), run_id=run_id
    )
    handler.on_llm_error(error, run_id=run_id, response=None)
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.end) == ("s-1", "ChatOpenAI", end)
    user, agent = run.turns()
    assert (user["parts"][0]["content"], agent["completion_status"]) == ("Rain?", "interrupted")
    events = [m["event_data"] for m in agent["messages"] if m["message_type"] == "system"]
    assert events == ([{"error": "ValueError", "message": "no such model"}] if end == "error" else [])


def test_a_model_of_texts_and_what_is_no_conversation(heard: Runs) -> None:
    handler = turnmill.langchain_handler()
    llm, prompt, failed, words, retriever, helped = (uuid4() for _ in range(6))
    handler.on_llm_start({"name": "Llama"}, ["Rain?"], run_id=llm, metadata={"conversation_id": "c"})
    handler.on_llm_end(answer(None, "No rain."), run_id=llm)
    handler.on_chain_start({"name": "Prompt"}, {"x": 1}, run_id=prompt)
    handler.on_chain_end("text", run_id=prompt)
    handler.on_chain_start(None, {"x": 1}, run_id=failed, name="Broken")
    handler.on_chain_error(ZeroDivisionError(), run_id=failed)
    handler.on_chain_start(None, "Snow?", run_id=words, name="Broken")
    handler.on_chain_error(ZeroDivisionError("division"), run_id=words)
    handler.on_retriever_start({"name": "Multi"}, "Rain?", run_id=retriever)
    handler.on_llm_start({"name": "Llama"}, ["Rephrase"], run_id=helped, parent_run_id=retriever)
    handler.on_llm_end(answer(None, "Is there rain?"), run_id=helped)
    handler.on_retriever_end([], run_id=retriever)
    handler.on_retriever_error(ValueError(), run_id=uuid4())
    handler.on_tool_error(ValueError(), run_id=uuid4())
    texts, broken, helping = heard()
    assert texts.said() == [[("user-prompt", "Rain?")], [("text", "No rain.")]]
    assert (broken.end, broken.turns()[0]["parts"][0]["content"]) == ("error", "Snow?")
    assert (helping.first["agent_id"], helping.said()[1]) == ("Multi", [("text", "Is there rain?")])


def test_what_fails_here_is_not_the_programs(heard: Runs, caplog: pytest.LogCaptureFixture) -> None:
    handler = turnmill.langchain_handler()
    with caplog.at_level(logging.ERROR):
        handler.on_chat_model_start({}, None, run_id=uuid4())
        handler.on_llm_end(SimpleNamespace(generations=[]), run_id=uuid4())
    assert "not published as a whole" in caplog.text
    assert heard() == []


def test_without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.callbacks", None)
    with pytest.raises(CallerError, match="langchain-core is not installed"):
        turnmill.langchain_handler()
