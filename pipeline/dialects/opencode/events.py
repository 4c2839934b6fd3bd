"""opencode (dialect `opencode`): lines of `opencode run --format json`, and events of its server.

| line | event of `/event` | what it does |
|---|---|---|
| `step_start` | part `step-start` | a response; of the same message again: what it has shown is taken back |
| `text`, `reasoning` | part `text`, `reasoning` | a text or thought, as far as it has come |
|  | `message.part.delta` | extends it |
| `tool_use` | part `tool` | a call, and its result when there is a result |
| `step_finish` | part `step-finish` | the response's tokens and cost; unless it called tools, the turn's end |
| `error` | `session.error`, `message.updated` with an error | the turn's end, in error or aborted |
|  | `message.updated` | of the user: the message's texts are the user's words; else the model |
|  | `session.idle` | the turn's end |
|  | `session.updated` | the thread's title |
| a part of another type | the same | SystemMessage `data-app-TYPE` |
| any other | any other | SystemMessage `data-app-TYPE`; nothing |

A run is a session: events of the server that are of another session than the first are left out.
"""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import ends, steps
from pipeline.dialects.asked_parts import retract
from pipeline.dialects.wire_values import is_number, number_or_none, text_or_none
from pipeline.turns.tokens import at
from topics.json_text import Fields, object_of

BESIDE: Final = (("cache", "read"), ("cache", "write"), ("reasoning",))  # counts beside input and output
SERVERS: Final = frozenset({"server", "session", "message", "permission", "file", "lsp", "todo", "question", "pty"})


def begin(builder: Builder) -> None:
    """Set up a run."""
    steps.begin(builder)
    builder.scratch.update(session=None, message=None, users=set(), parts={})


def _take(builder: Builder, event: Fields) -> None:
    told = event.get("properties")
    if isinstance(told, dict):
        inner = told.get("part", told.get("info"))
        session = told.get("sessionID") or (
            inner.get("sessionID", inner.get("id")) if isinstance(inner, dict) else None
        )
        builder.scratch["session"] = builder.scratch["session"] or session
        if session is None or session != builder.scratch["session"]:
            return
    match event:
        case {"properties": {"part": dict(part)}} | {"part": dict(part)}:
            _part(builder, part, part["type"] + "", part["id"] + "", part["messageID"] + "")
        case {"type": "message.part.delta", "properties": {"field": "text", "partID": str(key), "delta": str(text)}}:
            if opened := builder.open_text.get(key) or builder.open_thinking.get(key):
                opened.chunks.append(text)
        case {"properties": {"info": {"role": "user", "id": str(name)}}}:
            builder.scratch["users"].add(name)
        case {"properties": {"info": {"error": dict(error)}} | {"error": dict(error)}} | {"error": dict(error)}:
            builder.error_text = text_or_none(object_of(error.get("data")).get("message"))
            steps.over(builder, "aborted" if error.get("name") == "MessageAbortedError" else "error")
        case {"properties": {"info": {"modelID": str(model), "providerID": str(provider)}}}:
            builder.context.model_name = builder.context.model_name or model
            builder.context.provider_name = builder.context.provider_name or provider
        case {"properties": {"info": {"title": str(title)}}}:
            builder.thread["title"] = title
        case {"type": "session.idle"}:
            steps.over(builder, builder.ended or "complete")
        case {"type": kind} if told is None:
            steps.keep(builder, kind, event)


def _part(builder: Builder, part: Fields, kind: str, key: str, message: str) -> None:
    known: dict[str, Any] = builder.scratch["parts"]
    again = key in known
    known.setdefault(key, None)
    if message in builder.scratch["users"]:
        if kind == "text" and not again:
            steps.ask(builder, part["text"] + "")
    elif kind in ("text", "reasoning"):
        known[key] = known[key] or (builder.text_start if kind == "text" else builder.thinking_start)(key)
        known[key].chunks[:] = [part["text"] + ""]
        match part.get("time"):
            case {"end": end} if end is not None:
                known[key].done = True
                (builder.open_text if kind == "text" else builder.open_thinking).pop(key, None)
    elif kind == "tool":
        _tool(builder, part["callID"] + "", part["tool"] + "", part["state"])
        known[key] = builder.calls[part["callID"]][1]
    elif kind == "step-start" and not again:
        if builder.response is None or builder.scratch["message"] != message:
            builder.ended = None
            builder.open_response()
        else:  # it has not finished: the model is asked again
            retract(builder, [(builder.response, builder.response.parts)])
            builder.response.parts = []
            builder.open_text.clear()
            builder.open_thinking.clear()
        builder.scratch["message"] = message
    elif kind == "step-finish" and not again:
        _finished(builder, part, part["reason"] + "")
    elif not kind.startswith("step-"):
        steps.keep(builder, kind, part)


def _tool(builder: Builder, call_id: str, name: str, state: Fields) -> None:
    status, given = state["status"], state.get("input")
    if call_id not in builder.calls:
        steps.settle(builder)
        builder.tool_call(call_id, name, None)
    builder.calls[call_id][1].fields["args"] = object_of(given)
    if status in ("completed", "error"):
        beside = {key: state[key] for key in ("title", "metadata") if state.get(key)}
        content, failed = state.get("error" if status == "error" else "output"), status == "error"
        steps.result(builder, call_id, content, failed=failed, **({"meta:opencode": beside} if beside else {}))


def _finished(builder: Builder, part: Fields, reason: str) -> None:
    """End the response. opencode's input is without what the cache has, its output without thoughts.

    Its parts are told as they end, and have ids that ascend as they begin.
    """
    response, tokens = builder.current_response(), part["tokens"]
    begun = {id(each): key for key, each in builder.scratch["parts"].items() if each is not None}
    response.parts.sort(key=lambda each: begun.get(id(each), ""))
    read, written, thoughts = (number_or_none(at(tokens, path)) or 0 for path in BESIDE)
    usage: Fields = {"cache_read_tokens": read, "cache_write_tokens": written, "thinking_tokens": thoughts}
    usage["input_tokens"] = tokens["input"] + read + written
    usage["output_tokens"] = tokens["output"] + thoughts
    builder.usage(usage | ({"cost": part["cost"]} if is_number(part.get("cost")) else {}), response)
    ends.tell(response.fields, ends.AI_SDK, reason)
    steps.settle(builder)
    builder.close_response()
    if reason != "tool-calls":
        steps.over(builder, "complete")


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire: a line names its session, an event of the server has `properties`."""
    match event:
        case {"type": str(kind), "properties": {}}:
            return kind.partition(".")[0] in SERVERS
        case {"type": str(), "sessionID": str(), "timestamp": _}:
            return "part" in event or "error" in event
    return False


def _shows(event: Any) -> Sequence[Shown]:
    match event:
        case {"type": "text" | "reasoning" as kind, "part": {"text": str(text)}}:
            return [Shown("text" if kind == "text" else "thinking", text)]
        case {"type": "tool_use", "part": {"tool": str(name)}}:
            return [Shown("tool", name)]
        case {"type": "message.part.delta", "properties": {"field": "text", "delta": str(text)}}:
            return [Shown("text", text)]
    return ()


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    match event:
        case {"part": {"type": "step-finish", "reason": str(reason)}} if reason != "tool-calls":
            return "complete"
        case {"type": "message.part.updated", "properties": {"part": dict(part)}}:
            return _ended({"part": part}, before)
        case {"part": {"type": "step-start"}} | {"type": "session.error"} | {"type": "error", "sessionID": _}:
            return None
    return before


SESSION: Final = ("sessionID", "properties.sessionID", "properties.part.sessionID")
DIALECT: Final = steps.wire("opencode", _take, SESSION, recognises, _shows, _ended, begin)
