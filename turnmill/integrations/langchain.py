"""Publish runs of LangChain and LangGraph by a callback handler: chains, models and graphs, synchronous or not.

    chain.invoke("What's the weather?", config={"callbacks": [turnmill.langchain_handler()]})

Each call of the outermost Runnable is a run of the wire `langgraph`, in the form of its platform: streams of models are
`messages`, writes of nodes are `updates`, the state before and after the run is `values`. A chain has no state: there,
the first prompt is the state before the run, and each answer of a model and each result of a tool is an update.

Source: langchain_core/callbacks/base.py; langgraph/pregel. LangChain is imported when a handler is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from turnmill.capture.runs import PassingRun
from turnmill.capture.runtime import runtime
from turnmill.control.record import AFTER_TURN, Command
from turnmill.control.stopping import RunStopped
from turnmill.errors import CallerError
from turnmill.integrations.langchain_calls import (
    WIRE_KEYS,
    Call,
    Fields,
    Root,
    is_interrupt,
    is_update,
    messages_of,
    metadata_of,
    result_of,
    thread_configured,
    thread_named,
    updates_of,
    whole,
)

NEXT_PIECE: Final = "on_llm_new_token"
STEPS: Final = ("on_chat_model_start", "on_llm_start", "on_tool_start", NEXT_PIECE)
GIVEN_UP: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)

log = logging.getLogger("turnmill.publish.publisher")


def langchain_handler(*, thread_id: str | None = None, agent_id: str | None = None, tenant: str | None = None) -> Any:
    """Return a `BaseCallbackHandler` for `config={"callbacks": [...]}`; a handler serves any number of runs at once.

    Args:
        thread_id: The thread, if the config names none under `configurable` or in its metadata.
        agent_id: By default the agent's name, or LangChain's name of the run (`run_name`).
        tenant: The tenant.

    Raises:
        CallerError: LangChain is not installed.
    """
    try:
        base = import_module("langchain_core.callbacks").BaseCallbackHandler
    except ImportError as error:
        raise CallerError("langchain-core is not installed") from error
    runtime().prepare()
    publishing = _RunPublisher(thread_id, agent_id, tenant)
    methods: Fields = {name: _guarded(publishing, name) for name in HEARD}
    # `raise_error` only concerns the exception that stops a run: all others of ours are caught.
    return type("TurnmillHandler", (base,), {**methods, "run_inline": True, "raise_error": True})()


def _guarded(publishing: _RunPublisher, name: str) -> Callable[..., None]:
    """Wrap a callback as a method that raises only RunStopped, when a step begins or continues."""
    hear = getattr(publishing, name)

    def heard(_: Any, *arguments: Any, **named: Any) -> None:
        try:
            hear(*arguments, **named)
        except Exception:  # failures here must not affect the program
            log.exception("a run of LangChain is not published as a whole")
        if name in STEPS:
            publishing.check(named.get("run_id"), is_new=name != NEXT_PIECE)

    return heard


class _RunPublisher:
    """The state of a handler. Its methods may be called from any thread."""

    def __init__(self, thread_id: str | None, agent_id: str | None, tenant: str | None) -> None:
        self._thread_id, self._agent_id, self._tenant = thread_id, agent_id, tenant
        self._calls: dict[Any, Call] = {}
        self._lock = Lock()

    def check(self, run_id: Any, *, is_new: bool) -> None:
        """Raise RunStopped if the run was told to stop now; at the beginning of a step also if after the turn."""
        call = self._calls.get(run_id)
        stop = None if call is None or call.root.run is None else call.root.run.stop
        if stop is not None and stop.command is not None and (is_new or stop.error is not None):
            raise RunStopped(stop.command)

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **more: Any) -> None:
        """Begin a chain, a graph, or a node of a graph."""
        call = self._begun(run_id, serialized, inputs, more)
        if not call.is_node:
            return
        root, messages = call.root, messages_of(inputs)
        if call.namespace:
            self._tell_new(call, messages)
        else:
            root.is_graph = root.is_graph or call.parent == root.run_id
            if messages and not root.based:
                self._base(root, messages)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        """Publish a chain's output."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        if call.is_node and not call.namespace and is_update(outputs):
            call.root.has_state = call.root.has_state or any(map(messages_of, updates_of(outputs)))
            self._send(call.root, "updates", {call.name: outputs})
        if call.parent is None and call.root.is_graph and isinstance(outputs, dict):
            self._send(call.root, "values", outputs)
        self._over(call)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """End a call that failed, or a chain that waits for an answer (`interrupt`)."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        if call.is_node and not call.namespace and is_interrupt(error):
            self._send(call.root, "updates", {"__interrupt__": list(error.args[0])})
        self._over(call, error)

    on_llm_error = on_tool_error = on_retriever_error = on_chain_error

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
        self._asked(self._begun(run_id, serialized, None, more), messages[0])

    def on_llm_start(self, serialized: Any, prompts: Sequence[str], *, run_id: Any, **more: Any) -> None:
        self._asked(self._begun(run_id, serialized, None, more), [{"type": "human", "content": prompts[0]}])

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **_: Any) -> None:
        call = self._calls.get(run_id)
        message = getattr(chunk, "message", None)
        if call is not None and message is not None:
            self._send(call.root, f"messages{call.namespace}", [message, metadata_of(call, run_id)])

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """Publish a whole answer. In a graph, its node decides whether to write it into the state."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        generation = response.generations[0][0]
        message = getattr(generation, "message", None) or {"type": "ai", "content": generation.text, "id": str(run_id)}
        if call.task:
            self._send(call.root, f"messages{call.namespace}", [whole(message), metadata_of(call, run_id)])
        else:
            self._send(call.root, "updates", {call.name: {"messages": [whole(message)]}})
        call.root.calls.extend(getattr(message, "tool_calls", ()))
        self._over(call)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, inputs: Any = None, **more: Any) -> None:
        self._begun(run_id, serialized, inputs, more)

    def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        """Publish a tool's result. In a graph, the state contains it."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        result = None if call.task or call.root.run is None else result_of(call, output)
        if result is not None:
            self._send(call.root, "updates", {call.name: {"messages": [result]}})
        self._over(call)

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **more: Any) -> None:
        """Begin a search for documents, which may call a model."""
        self._begun(run_id, serialized, query, more)

    def on_retriever_end(self, documents: Any, *, run_id: Any, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is not None:
            self._over(call)

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """Publish an event of `dispatch_custom_event`."""
        call = self._calls.get(run_id)
        if call is not None:
            self._send(call.root, "custom", {"type": name, "data": data})

    def _begun(self, run_id: Any, serialized: Any, inputs: Any, more: Fields) -> Call:
        metadata, parent_id = more.get("metadata") or {}, more.get("parent_run_id")
        name = more.get("name") or (serialized or {}).get("name") or "agent"
        parent = self._calls.get(parent_id)
        if parent is None:
            thread = thread_named(metadata) or thread_configured()
            root = Root(str(run_id), str(metadata.get("lc_agent_name") or name), metadata, inputs, thread)
        else:
            root = parent.root
            root.thread_id = root.thread_id or thread_named(metadata) or thread_configured()
        wire_metadata = {key: metadata[key] for key in WIRE_KEYS if key in metadata}
        above = None if parent is None else str(parent_id)
        call = self._calls[run_id] = Call(root, name, above, wire_metadata, inputs)
        return call

    def _asked(self, call: Call, prompt: Any) -> None:
        """Publish the messages of a prompt.

        The first prompt is the state before the run, if no state has messages. Later prompts contain the results of
        tools that the program runs itself.
        """
        root = call.root
        for message in () if root.has_state else prompt:
            identity = getattr(message, "tool_call_id", None)
            if not any(asked["id"] == identity for asked in root.calls):
                continue
            if call.task:
                self._send(root, f"messages{call.namespace}", [result_of(call, message), call.metadata])
            else:
                self._send(root, "updates", {"tools": {"messages": [result_of(call, message)]}})
        is_graphs = bool(call.task) and isinstance(root.inputs, dict) and "messages" in root.inputs
        if not root.based and not call.namespace and not is_graphs:
            self._base(root, prompt)

    def _base(self, root: Root, messages: Sequence[Any]) -> None:
        root.based = True
        self._send(root, "values", {"messages": list(messages)})

    def _tell_new(self, call: Call, messages: Sequence[Any]) -> None:
        """Publish messages of an inner graph that are not from a model. The input of its nodes has ids by now."""
        for message in messages:
            identity = getattr(message, "id", None)
            if isinstance(identity, str) and identity not in call.root.seen:
                call.root.seen.add(identity)
                if getattr(message, "type", None) != "ai":
                    self._send(call.root, f"messages{call.namespace}", [message, call.metadata])

    def _send(self, root: Root, mode: str, data: Any) -> None:
        run = root.run or self._opened(root)
        run.send({"event": mode, "data": data})

    def _opened(self, root: Root) -> PassingRun:
        with self._lock:  # nodes of a graph may begin at the same time
            if root.run is None:
                root.run = runtime().run(
                    thread_id=root.thread_id or self._thread_id or str(uuid4()),
                    agent_id=self._agent_id or root.name,
                    dialect="langgraph",
                    run_id=root.run_id,
                    tenant=self._tenant,
                )
                if root.run.stop is not None:
                    root.run.stop.then(partial(_on_stop, root, root.run))
            return root.run

    def _over(self, call: Call, error: BaseException | None = None) -> None:
        """End the run with the outermost call. Without a call of a model there is no run, unless something failed."""
        root = call.root
        if call.parent is not None:
            return
        if isinstance(error, RunStopped) and root.run is not None:
            root.run.stopped()
            return
        if error is None:
            end = "aborted" if root.stops else "complete"
        elif isinstance(error, GIVEN_UP):
            end = "aborted"
        else:
            end = "error"
            asked = messages_of(root.inputs)
            if root.run is None and not asked:  # no message at all
                return
            if root.run is None:
                self._base(root, asked)
            self._send(root, "error", {"error": type(error).__name__, "message": str(error)})
        if root.run is not None:
            root.run.end(end)


def _on_stop(root: Root, run: PassingRun, command: Command) -> None:
    """Say at once that a run stops after the turn: its next step may begin much later, or never."""
    if command.mode == AFTER_TURN:
        root.stops = True
        run.heard()


HEARD: Final = tuple(name for name in vars(_RunPublisher) if name.startswith("on_"))
