"""The Agent2Agent protocol (dialect `a2a`): results of JSON-RPC, or the bare objects of REST; 1.x and 0.3.

| event | what it does |
|---|---|
| `task` | the user's words in its history, its artifacts and its status, as far as they are new |
| `statusUpdate`, `status-update` | its message is the agent's text; a state that ends: the turn's end |
| states `completed`, `input-required`, `auth-required` | complete |
| states `canceled`; `failed`, `rejected` | aborted; in error |
| `artifactUpdate`, `artifact-update` | a text; with `append` more of it, without it another text in its place |
| `message` | the answer, whole |
| data `{name, args}`, `{name, response}` of ADK's agents | a call, and its result |
| other parts: data, files | SystemMessage `data-app-part` |
| `adk_usage_metadata` | tokens of the response |
| `error` | the turn's end, in error |
| any other | SystemMessage `data-app-a2a` |

What an artifact had before another text took its place is taken back. Closing a stream ends no task: a stream that
goes on with the task begins with all that it has.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import steps
from pipeline.dialects.asked_parts import retract
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns.text import join
from pipeline.turns.tokens import counts
from topics.json_text import Fields, objects

KINDS: Final = {"task": "task", "statusUpdate": "status", "artifactUpdate": "artifact", "message": "message"}
OLD_KINDS: Final = {"task": "task", "status-update": "status", "artifact-update": "artifact", "message": "message"}
ABOUT: Final[dict[str, StreamEnd]] = {
    **dict.fromkeys(("completed", "input-required", "auth-required"), "complete"),
    "canceled": "aborted",
}
ENDS: Final[dict[str, End]] = {**ABOUT, "failed": "error", "rejected": "error"}


def told(event: Any) -> tuple[str, Fields]:
    """Return the kind of an event of any version and binding, and its object: ("status", {…}); ("", {}) of no kind."""
    match event:
        case {"jsonrpc": "2.0", "result": dict(result)}:
            kind = result.get("kind")
            return (OLD_KINDS[kind], result) if isinstance(kind, str) and kind in OLD_KINDS else told(result)
        case {"error": {"message": _} as error}:
            return "error", error
        case dict() if len(event) == 1:
            (name, value), *_ = event.items()
            if name in KINDS and isinstance(value, dict) and value.keys() & {"contextId", "taskId", "messageId"}:
                return KINDS[name], value
    return "", {}


def state_of(state: str) -> str:
    """Return a task's state as 0.3 writes it."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def parts_of(holder: Any) -> list[Fields]:
    """Return the parts of a message or artifact; REST of 0.3 has a message's under `content`."""
    return objects(holder.get("parts", holder.get("content"))) if isinstance(holder, dict) else []


def texts(holder: Any) -> Iterator[str]:
    """Return the texts of a message or artifact."""
    return (part["text"] for part in parts_of(holder) if isinstance(part.get("text"), str))


def begin(builder: Builder) -> None:
    """Take the user's words from the request: those of a task that goes on are nowhere else."""
    builder.scratch.update(messages=set(), artifacts={})
    match builder.context.request:
        case {"params": {"message": dict(message)}} | {"message": dict(message)} | {"request": dict(message)}:
            _message(builder, {**message, "role": "user"})


def _take(builder: Builder, event: Fields) -> None:
    match told(event):
        case "task", value:
            for message in objects(value.get("history")):
                _message(builder, message)
            for artifact in objects(value.get("artifacts")):
                _artifact(builder, artifact, append=False)
            _status(builder, value["status"])
        case "status", value:
            _status(builder, value["status"], value.get("metadata"))
        case "artifact", value:
            _artifact(builder, value["artifact"], append=value.get("append") is True)
            _count(builder, value.get("metadata"))
        case "message", value:
            _message(builder, value)
            steps.over(builder, "complete")
        case "error", value:
            builder.error_text = text_or_none(value["message"])
            steps.over(builder, "error")
        case _:
            steps.keep(builder, "a2a", event)


def _message(builder: Builder, message: Fields) -> None:
    name, parts = message.get("messageId", message.get("message_id")), parts_of(message)
    if not isinstance(name, str) or name not in builder.scratch["messages"]:
        builder.scratch["messages"].add(str(name))
        if str(message.get("role")).lower().endswith("user"):
            words = [part.get("text") or part for part in parts]
            steps.ask(builder, words[0] if len(words) == 1 else words)
            return
        for part in parts:
            _part(builder, part)
        steps.settle(builder)


def _part(builder: Builder, part: Fields, key: str = "") -> None:
    data = part.get("data")
    match data["data"] if isinstance(data, dict) and data.keys() == {"data"} else data:
        case {"name": str(name), "args": args, "id": str(call_id)}:
            steps.call(builder, call_id, name, args)
        case {"name": str(name), "response": response, "id": str(call_id)}:
            steps.result(builder, call_id, response, tool_name=name)
        case None if isinstance(part.get("text"), str):
            steps.say(builder, "text", part["text"], key)
        case _:
            steps.keep(builder, "part", part)


def _artifact(builder: Builder, artifact: Fields, *, append: bool) -> None:
    name, text = artifact["artifactId"] + "", "".join(texts(artifact))
    known: dict[str, tuple[Message, Part]] = builder.scratch["artifacts"]
    if name in known and text:
        response, part = known[name]
        before = join(part.chunks)
        if not append and not text.startswith(before):
            retract(builder, [(response, [Part(part.fields, [before], done=True)])])
        part.chunks[:] = [before + text if append else text]
        return
    steps.settle(builder)
    for piece in parts_of(artifact):
        _part(builder, piece, name)
    if name in builder.open_text:
        known[name] = builder.current_response(), builder.open_text[name]
    steps.settle(builder)


def _status(builder: Builder, status: Fields, metadata: Any = None) -> None:
    state, message = state_of(status["state"]), status.get("message")
    if isinstance(message, dict):
        _message(builder, message)
    _count(builder, metadata)
    if state in ENDS:
        builder.error_text = "".join(texts(message)) or None if ENDS[state] == "error" else None
        steps.over(builder, ENDS[state])
    else:
        builder.ended = None


def _count(builder: Builder, metadata: Any) -> None:
    """Set the response's tokens; numbers of metadata are floats, and the model's thoughts are beside its output."""
    match metadata:
        case {"adk_usage_metadata": dict(told)}:
            usage = {name: int(count) for name, count in counts(told).items()}
            if "thinking_tokens" in usage:
                usage["output_tokens"] = usage.get("output_tokens", 0) + usage["thinking_tokens"]
            builder.usage(usage)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. An error could be of any other wire, too."""
    return told(event)[0] not in ("", "error")


def _shows(event: Any) -> Sequence[Shown]:
    match told(event):
        case ("artifact", {"artifact": holder}) | ("status", {"status": {"message": holder}}) | ("message", holder):
            return [Shown("text", text) for text in texts(holder)]
    return ()


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    match told(event):
        case "message", _:
            return "complete"
        case "status" | "task", {"status": {"state": str(state)}}:
            return ABOUT.get(state_of(state))
    return before


SESSION: Final = tuple(
    f"{result}{kind}contextId" for result in ("result.", "") for kind in ("", *(f"{kind}." for kind in KINDS))
)
DIALECT: Final = steps.wire("a2a", _take, SESSION, recognises, _shows, _ended, begin)
