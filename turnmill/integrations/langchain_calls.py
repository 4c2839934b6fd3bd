"""One call of LangChain's, and its messages on the wire `langgraph`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turnmill.capture.runs import PassingRun

NODE: Final = "langgraph_node"  # key in the metadata: the node of a graph
TASK: Final = "langgraph_checkpoint_ns"  # key in the metadata: the node's task, with its graph
WIRE_KEYS: Final = (NODE, TASK, "langgraph_step", "langgraph_path", "checkpoint_id")  # keys that the wire reads
THREADS: Final = ("thread_id", "session_id", "conversation_id")  # by which LangSmith's metadata name a thread

Fields = dict[str, Any]


@dataclass(slots=True, eq=False)
class Root:
    """The outermost call of a Runnable.

    `run`: None until the first event is published. `based`: the state before the run is published. `has_state`: its
    graph's nodes write messages. `stops`: it was told to, after the turn.
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
    stops: bool = False
    seen: set[str] = field(default_factory=set)  # ids of published messages that inner graphs got as input
    calls: list[Fields] = field(default_factory=list)  # calls of tools that wait for a result


@dataclass(frozen=True, slots=True)
class Call:
    """An inner call of a chain, a model or a tool. `task`: the graph's task that makes it; empty outside of graphs."""

    root: Root
    name: str
    parent: str | None
    metadata: Fields
    inputs: Any = None

    @property
    def task(self) -> str:
        return str(self.metadata.get(TASK) or "")

    @property
    def is_function(self) -> bool:
        """True if it is in a `@task` of an `@entrypoint`, which is no graph, although `task` looks like a graph's."""
        path: Any = self.metadata.get("langgraph_path") or ()
        return len(path) > 1 and not isinstance(path[1], str | int) and self.task.count("|") == 1

    @property
    def namespace(self) -> str:
        """The inner graph that it belongs to, in the platform's form after a mode; empty for the outermost graph."""
        inner = "" if self.is_function else self.task.rpartition("|")[0]
        return f"|{inner}" if inner else ""

    @property
    def is_node(self) -> bool:
        return bool(self.task) and self.metadata.get(NODE) == self.name and not self.is_function


def messages_of(given: Any) -> Sequence[Any]:
    """Return the messages of a state, of an input, or of a prompt; empty if there are none."""
    if isinstance(given, dict):
        given = given.get("messages")
    if isinstance(given, str):
        return [{"type": "human", "content": given}]
    if given is None or not isinstance(given, list | tuple):
        return ()
    return given


def updates_of(written: Any) -> list[Any]:
    """Return the updates that a node has written: an update, a command with it, or a list of both."""
    several = written if isinstance(written, list) else [written]
    return [update if isinstance(update, dict) else getattr(update, "update", None) for update in several]


def is_update(written: Any) -> bool:
    """Return True if a node has written nothing but updates of the state."""
    return all(isinstance(update, dict) for update in updates_of(written))


def thread_named(metadata: Mapping[str, Any]) -> str | None:
    """Return the thread that a call's metadata name."""
    return next((str(metadata[key]) for key in THREADS if metadata.get(key)), None)


def thread_configured() -> str | None:
    """Return the thread of a chain's current config. Later releases don't copy it to the metadata."""
    module = sys.modules.get("langchain_core.runnables.config")
    current = getattr(module, "var_child_runnable_config", None)
    config = None if current is None else current.get()
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return str(thread) if thread else None


def metadata_of(call: Call, run_id: Any) -> Fields:
    """Return the metadata of a message. Pieces with the same task, or else of the same call, make a message."""
    return call.metadata if call.task else {TASK: f"{call.name}:{run_id}"}


def whole(message: Any) -> Any:
    """Return an answer as a message, also if it is a sum of chunks."""
    if not hasattr(message, "model_dump"):
        return message
    fields = message.model_dump(mode="json", warnings=False)
    return {**fields, "type": "ai"} if fields.get("type") == "AIMessageChunk" else fields


def result_of(call: Call, output: Any) -> Any:
    """Return a tool's message, matched to its call: without a call id, to the oldest call that it may answer."""
    waiting = call.root.calls
    identity = getattr(output, "tool_call_id", None)
    if identity is None:
        fits = [asked for asked in waiting if asked["name"] == call.name and call.inputs in (None, asked["args"])]
        if not fits:
            return None
        identity = fits[0]["id"]
        output = {"type": "tool", "name": call.name, "tool_call_id": identity, "content": str(output)}
    waiting[:] = [asked for asked in waiting if asked["id"] != identity]
    return output


def is_interrupt(error: BaseException) -> bool:
    """Return True if this error stops a graph until the program resumes it with an answer (`interrupt`)."""
    return type(error).__name__ == "GraphInterrupt" and bool(error.args)
