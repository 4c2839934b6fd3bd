"""Runs of LangChain and LangGraph, published by a callback handler: chains, models and graphs, synchronous or not.

    chain.invoke("What's the weather?", config={"callbacks": [threadmill.langchain_handler()]})

Each call of the outermost Runnable is a run of the wire `langgraph`, in the form of its platform: what models stream is
`messages`, what nodes write `updates`, the state before and after the run `values`. A chain has no state: there the
first prompt is the state before the run, and each answer of a model and each result of a tool is an update.

Source: langchain_core/callbacks/base.py; langgraph/pregel. LangChain is imported when a handler is made.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from threadmill.capture.runs import PassingRun
from threadmill.capture.runtime import runtime
from threadmill.errors import CallerError

NODE: Final = "langgraph_node"  # of the metadata: which node of a graph it is
TASK: Final = "langgraph_checkpoint_ns"  # which of its tasks, and of which graph
TOLD: Final = (NODE, TASK, "langgraph_step", "langgraph_path", "checkpoint_id")  # what the wire reads of the metadata
THREADS: Final = ("thread_id", "session_id", "conversation_id")  # by which LangSmith's metadata name a thread
GIVEN_UP: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)

Fields = dict[str, Any]

log = logging.getLogger("threadmill.publisher")


def langchain_handler(*, thread_id: str | None = None, agent_id: str | None = None, tenant: str | None = None) -> Any:
    """-> a `BaseCallbackHandler` for `config={"callbacks": [...]}`; one serves any number of runs, also at once.

    `thread_id`: where the config names none, under `configurable` or in its metadata. `agent_id`: by default the
    agent's name, or what LangChain calls the run (`run_name`). Raises CallerError where LangChain is not installed.
    """
    try:
        base = import_module("langchain_core.callbacks").BaseCallbackHandler
    except ImportError as error:
        raise CallerError("langchain-core is not installed") from error
    runtime().prepare()
    publishing = _Publishing(thread_id, agent_id, tenant)
    methods: Fields = {name: _guarded(getattr(publishing, name)) for name in HEARD}
    return type("ThreadmillHandler", (base,), {**methods, "run_inline": True, "raise_error": False})()


def _guarded(hear: Callable[..., None]) -> Callable[..., None]:
    """A callback as a method that raises nothing."""

    def heard(_: Any, *arguments: Any, **named: Any) -> None:
        try:
            hear(*arguments, **named)
        except Exception:  # what fails here is not the program's
            log.exception("a run of LangChain is not published as a whole")

    return heard


@dataclass(slots=True, eq=False)
class _Root:
    """The outermost call of a Runnable. `run`: begins with the first event. `based`: the state before it was told.
    `has_state`: its graph's nodes write messages.
    """

    run_id: str
    name: str
    metadata: Mapping[str, Any]
    inputs: Any
    thread_id: str | None
    run: PassingRun | None = None
    based: bool = False
    is_graph: bool = False
    has_state: bool = False
    seen: set[str] = field(default_factory=set)  # ids of messages of graphs inside, that were told
    calls: list[Fields] = field(default_factory=list)  # of tools, that wait for a result


@dataclass(frozen=True, slots=True)
class _Call:
    """A call inside: of a chain, a model or a tool. `task`: which task of a graph makes it; empty outside of any."""

    root: _Root
    name: str
    parent: str | None
    metadata: Fields
    inputs: Any = None

    @property
    def task(self) -> str:
        return str(self.metadata.get(TASK) or "")

    @property
    def is_function(self) -> bool:
        """Whether it is in a `@task` of an `@entrypoint`: no graph, whatever its task says."""
        path: Any = self.metadata.get("langgraph_path") or ()
        return len(path) > 1 and not isinstance(path[1], str | int) and self.task.count("|") == 1

    @property
    def namespace(self) -> str:
        """The graph inside which it is, as the platform writes it behind a mode."""
        inner = "" if self.is_function else self.task.rpartition("|")[0]
        return f"|{inner}" if inner else ""

    @property
    def is_node(self) -> bool:
        return bool(self.task) and self.metadata.get(NODE) == self.name and not self.is_function


class _Publishing:
    """What a handler hears. Its methods may be called from any thread."""

    def __init__(self, thread_id: str | None, agent_id: str | None, tenant: str | None) -> None:
        self._thread_id, self._agent_id, self._tenant = thread_id, agent_id, tenant
        self._calls: dict[Any, _Call] = {}
        self._lock = Lock()

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **more: Any) -> None:
        """A chain, a graph, or a node of one."""
        call = self._begun(run_id, serialized, inputs, more)
        if not call.is_node:
            return
        root, messages = call.root, _messages(inputs)
        if call.namespace:
            self._tell_new(call, messages)
        else:
            root.is_graph = root.is_graph or call.parent == root.run_id
            if messages and not root.based:
                self._base(root, messages)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        """What it gave."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        if call.is_node and not call.namespace and _is_update(outputs):
            call.root.has_state = call.root.has_state or any(map(_messages, _updates(outputs)))
            self._send(call.root, "updates", {call.name: outputs})
        if call.parent is None and call.root.is_graph and isinstance(outputs, dict):
            self._send(call.root, "values", outputs)
        self._over(call)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """It failed, or waits for somebody (`interrupt`)."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        if call.is_node and not call.namespace and _is_interrupt(error):
            self._send(call.root, "updates", {"__interrupt__": list(error.args[0])})
        self._over(call, error)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
        """A model is asked."""
        self._asked(self._begun(run_id, serialized, None, more), messages[0])

    def on_llm_start(self, serialized: Any, prompts: Sequence[str], *, run_id: Any, **more: Any) -> None:
        """A model of texts is asked."""
        self._asked(self._begun(run_id, serialized, None, more), [{"type": "human", "content": prompts[0]}])

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **_: Any) -> None:
        """A piece of an answer."""
        call = self._calls.get(run_id)
        message = getattr(chunk, "message", None)
        if call is not None and message is not None:
            self._send(call.root, f"messages{call.namespace}", [message, _told(call, run_id)])

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """A whole answer. In a graph its node writes it into the state, or does not."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        generation = response.generations[0][0]
        message = getattr(generation, "message", None) or {"type": "ai", "content": generation.text, "id": str(run_id)}
        if call.task:
            self._send(call.root, f"messages{call.namespace}", [_whole(message), _told(call, run_id)])
        else:
            self._send(call.root, "updates", {call.name: {"messages": [_whole(message)]}})
        call.root.calls.extend(getattr(message, "tool_calls", ()))
        self._over(call)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """No answer."""
        self.on_chain_error(error, run_id=run_id)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, inputs: Any = None, **more: Any) -> None:
        """A tool is called."""
        self._begun(run_id, serialized, inputs, more)

    def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        """What it gave. In a graph the state has it."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        result = None if call.task or call.root.run is None else _result(call, output)
        if result is not None:
            self._send(call.root, "updates", {call.name: {"messages": [result]}})
        self._over(call)

    def on_tool_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """It gave nothing; what becomes of that, its caller decides."""
        self.on_chain_error(error, run_id=run_id)

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **more: Any) -> None:
        """Documents are looked for, perhaps with a model's help."""
        self._begun(run_id, serialized, query, more)

    def on_retriever_end(self, documents: Any, *, run_id: Any, **_: Any) -> None:
        """They were found."""
        call = self._calls.pop(run_id, None)
        if call is not None:
            self._over(call)

    def on_retriever_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """They were not."""
        self.on_chain_error(error, run_id=run_id)

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """What `dispatch_custom_event` says."""
        call = self._calls.get(run_id)
        if call is not None:
            self._send(call.root, "custom", {"type": name, "data": data})

    def _begun(self, run_id: Any, serialized: Any, inputs: Any, more: Fields) -> _Call:
        metadata, parent_id = more.get("metadata") or {}, more.get("parent_run_id")
        name = more.get("name") or (serialized or {}).get("name") or "agent"
        parent = self._calls.get(parent_id)
        if parent is None:
            thread = _named(metadata) or _configured()
            root = _Root(str(run_id), str(metadata.get("lc_agent_name") or name), metadata, inputs, thread)
        else:
            root = parent.root
            root.thread_id = root.thread_id or _named(metadata) or _configured()
        told = {key: metadata[key] for key in TOLD if key in metadata}
        above = None if parent is None else str(parent_id)
        call = self._calls[run_id] = _Call(root, name, above, told, inputs)
        return call

    def _asked(self, call: _Call, prompt: Any) -> None:
        """The first prompt is the state before the run, where no state has messages. Later ones have what a program's
        own tools gave.
        """
        root = call.root
        for message in () if root.has_state else prompt:
            identity = getattr(message, "tool_call_id", None)
            if not any(asked["id"] == identity for asked in root.calls):
                continue
            if call.task:
                self._send(root, f"messages{call.namespace}", [_result(call, message), call.metadata])
            else:
                self._send(root, "updates", {"tools": {"messages": [_result(call, message)]}})
        is_graphs = bool(call.task) and isinstance(root.inputs, dict) and "messages" in root.inputs
        if not root.based and not call.namespace and not is_graphs:
            self._base(root, prompt)

    def _base(self, root: _Root, messages: Sequence[Any]) -> None:
        root.based = True
        self._send(root, "values", {"messages": list(messages)})

    def _tell_new(self, call: _Call, messages: Sequence[Any]) -> None:
        """Messages of a graph inside that no model has said: what its nodes were given has ids by now."""
        for message in messages:
            identity = getattr(message, "id", None)
            if isinstance(identity, str) and identity not in call.root.seen:
                call.root.seen.add(identity)
                if getattr(message, "type", None) != "ai":
                    self._send(call.root, f"messages{call.namespace}", [message, call.metadata])

    def _send(self, root: _Root, mode: str, data: Any) -> None:
        run = root.run or self._opened(root)
        run.send({"event": mode, "data": data})

    def _opened(self, root: _Root) -> PassingRun:
        with self._lock:  # nodes of a graph may begin at once
            if root.run is None:
                root.run = runtime().run(
                    thread_id=root.thread_id or self._thread_id or str(uuid4()),
                    agent_id=self._agent_id or root.name,
                    dialect="langgraph",
                    run_id=root.run_id,
                    tenant=self._tenant,
                )
            return root.run

    def _over(self, call: _Call, error: BaseException | None = None) -> None:
        """The run ends with the outermost call. Where no model was asked there is none, unless something failed."""
        root = call.root
        if call.parent is not None:
            return
        if error is None:
            end = "complete"
        elif isinstance(error, GIVEN_UP):
            end = "aborted"
        else:
            end = "error"
            asked = _messages(root.inputs)
            if root.run is None and not asked:  # nobody has said anything
                return
            if root.run is None:
                self._base(root, asked)
            self._send(root, "error", {"error": type(error).__name__, "message": str(error)})
        if root.run is not None:
            root.run.end(end)


HEARD: Final = tuple(name for name in vars(_Publishing) if name.startswith("on_"))


def _messages(given: Any) -> Sequence[Any]:
    """The messages of a state, of an input, or of a prompt; none where there are none."""
    if isinstance(given, dict):
        given = given.get("messages")
    if isinstance(given, str):
        return [{"type": "human", "content": given}]
    if given is None or not isinstance(given, list | tuple):
        return ()
    return given


def _updates(written: Any) -> list[Any]:
    """What a node has written: an update, a command with one, or several of them."""
    several = written if isinstance(written, list) else [written]
    return [update if isinstance(update, dict) else getattr(update, "update", None) for update in several]


def _is_update(written: Any) -> bool:
    return all(isinstance(update, dict) for update in _updates(written))


def _named(metadata: Mapping[str, Any]) -> str | None:
    return next((str(metadata[key]) for key in THREADS if metadata.get(key)), None)


def _configured() -> str | None:
    """The thread of the config that is current inside of a chain: later releases don't copy it into the metadata."""
    module = sys.modules.get("langchain_core.runnables.config")
    current = getattr(module, "var_child_runnable_config", None)
    config = None if current is None else current.get()
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return str(thread) if thread else None


def _told(call: _Call, run_id: Any) -> Fields:
    """The metadata of a message; pieces of one are told from another's by the task, or else by the model's call."""
    return call.metadata if call.task else {TASK: f"{call.name}:{run_id}"}


def _whole(message: Any) -> Any:
    """An answer; what was added up of chunks is none any more."""
    if not hasattr(message, "model_dump"):
        return message
    fields = message.model_dump(mode="json", warnings=False)
    return {**fields, "type": "ai"} if fields.get("type") == "AIMessageChunk" else fields


def _result(call: _Call, output: Any) -> Any:
    """A tool's message; of a tool that was given no call, the oldest one that it may answer is looked for."""
    waiting = call.root.calls
    identity = getattr(output, "tool_call_id", None)
    if identity is None:
        fits = [asked for asked in waiting if asked["name"] == call.name and call.inputs in (None, asked["args"])]
        if not fits:
            return None
        identity = fits[0]["id"]
        output = {"type": "tool", "name": call.name, "tool_call_id": identity, "content": _text(output)}
    waiting[:] = [asked for asked in waiting if asked["id"] != identity]
    return output


def _text(output: Any) -> str:
    return output if isinstance(output, str) else str(output)


def _is_interrupt(error: BaseException) -> bool:
    return type(error).__name__ == "GraphInterrupt" and bool(error.args)
