"""Codex (dialect `codex`): the lines of `codex exec --json`, and the notifications of `codex app-server`.

| line | notification | what it does |
|---|---|---|
| `thread.started` | `thread/started` | the name of Codex's thread |
| `turn.started` | `turn/started` | the next turn of the run, if a turn is over |
| `item.completed`: `agent_message`, `reasoning` | the same in camel case | a text or thought, whole |
|  | `item/agentMessage/delta`, `item/reasoning/…Delta` | extends it |
|  | `item/completed`: `userMessage` | the user's words |
| `item.*`: commands, tools of MCP, changes of files, searches, agents | the same | a call; completed, its result |
| `error`, also as an item | `error` | SystemMessage `data-app-notice` |
|  | `error` with `willRetry` | the same; the text that is open is taken back |
|  | `thread/tokenUsage/updated` | tokens of a call of the model |
| `turn.completed` | `turn/completed` | the turn's end; its tokens: what the thread's sum has grown by in this stream |
| `turn.failed` | `turn/completed`: `failed`, `interrupted` | the turn's end, in error or aborted |
| any other | any other | SystemMessage `data-app-TYPE`; of notifications nothing |

The sum of a thread that an earlier run began has that run's tokens, too, and no line tells how many: the turn has no
usage then, and the sum is kept in `meta:codex`. Such a thread is known by its id, which holds the time when it began.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import steps
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns.tokens import counts
from topics.json_text import Fields, objects

TEXTS: Final[dict[str, steps.Kind]] = {
    "agent_message": "text",
    "reasoning": "thinking",
    "item/agentMessage/delta": "text",
    "item/reasoning/summaryTextDelta": "thinking",
    "item/reasoning/textDelta": "thinking",
}
# The items that are calls: the field of their result, which is no argument.
CALLS: Final = {
    "command_execution": "aggregated_output",
    "mcp_tool_call": "result",
    "file_change": "",
    "web_search": "results",
    "collab_tool_call": "agents_states",
}
BESIDE: Final = ("id", "type", "status", "exit_code", "duration_ms", "error")  # fields of a call that are no arguments
MINUTE: Final = 60_000  # ms
STATES: Final[dict[Any, End]] = {"turn.completed": "complete", "completed": "complete", "interrupted": "aborted"}


def _take(builder: Builder, event: Fields) -> None:
    match event:
        case {"method": str(method), "params": dict(params)}:
            for line in _lines(builder, method, params):
                _take(builder, line)
        case {"type": "thread.started", "thread_id": str(name)}:
            builder.context.external_id = builder.context.external_id or name
            builder.scratch["older"] = _is_older(name, builder.at)
        case {"type": "turn.started"}:
            builder.ended = None
        case {"type": "item.completed", "item": {"type": str(kind), "id": str(key), "text": str(text)}} if (
            kind in TEXTS
        ):
            steps.say(builder, TEXTS[kind], text, key, whole=True)
        case {"type": "item.completed", "item": {"type": "user_message", "text": text}}:
            steps.ask(builder, text)
        case {"type": str(state), "item": {"type": str(kind), "id": str(key)} as item} if kind in CALLS:
            _call(builder, item, kind, key, done=state == "item.completed")
        case {"type": "error", "message": str(text)} | {"item": {"type": "error", "message": str(text)}}:
            if event.get("will_retry") is True:
                steps.take_back(builder)
            steps.notice(builder, text)
        case {"type": "turn.completed" | "turn.failed" as state}:
            sums, before = counts(event.get("usage")), builder.scratch.get("sums", {})
            builder.scratch["sums"] = before | sums
            builder.error_text = text_or_none(event["error"]["message"]) if state == "turn.failed" else None
            usage = {name: max(0, count - before.get(name, 0)) for name, count in sums.items()}
            if builder.scratch.pop("older", False) and sums:
                usage, builder.notes["meta:codex"] = {}, {"thread_usage": sums}
            steps.over(builder, STATES.get(state, "error"), usage)
        case {"type": kind}:
            steps.keep(builder, kind, event)


def _is_older(name: str, at: int) -> bool:
    """Return True for the id of a thread (UUID 7) that began more than a minute before a time in epoch ms."""
    try:
        thread = UUID(name)
    except ValueError:
        return False
    return thread.version == 7 and (thread.int >> 80) + MINUTE < at


def _call(builder: Builder, item: Fields, kind: str, key: str, *, done: bool) -> None:
    args = {name: value for name, value in item.items() if name not in (*BESIDE, CALLS[kind])}
    name, given = item.get("tool"), args.get("arguments")
    if kind == "mcp_tool_call" and isinstance(name, str):
        steps.call(builder, key, name, {} if given is None else given, **{"meta:codex": {"server": args.get("server")}})
    else:
        steps.call(builder, key, kind, args)
    if done:
        state, error, code = item.get("status"), item.get("error"), item.get("exit_code")
        beside: dict[str, Any] = {} if code is None else {"meta:codex": {"exit_code": code}}
        content = item.get(CALLS[kind], state) if error is None else error
        steps.result(builder, key, content, failed=error is not None or state not in (None, "completed"), **beside)


def _lines(builder: Builder, method: str, params: Fields) -> Iterator[Fields]:
    """Return what a notification says as lines of `codex exec`."""
    match method, params:
        case "thread/started", {"thread": {"id": name}}:
            yield {"type": "thread.started", "thread_id": name}
        case "turn/started", _:
            yield {"type": "turn.started"}
        case "item/started" | "item/completed", {"item": {"type": str(kind), "id": str()} as item}:
            if method == "item/completed" or _words(kind) in CALLS:
                yield {"type": method.replace("/", "."), "item": _item(item)}
        case _, {"delta": str(text), "itemId": str(key)} if method in TEXTS:
            steps.say(builder, TEXTS[method], text, key)
        case "error", {"error": {"message": text}}:
            yield {"type": "error", "message": text, "will_retry": params.get("willRetry")}
        case "thread/tokenUsage/updated", {"tokenUsage": {"total": total, "last": dict(last)}}:
            if total != builder.scratch.get("total"):  # it comes again as it is
                used: Fields = builder.scratch.setdefault("used", {})
                builder.scratch["total"] = total
                spent = counts(last)
                used.update({name: used.get(name, 0) + count for name, count in spent.items()})
        case "turn/completed", {"turn": {"status": str(state)} as turn}:
            if isinstance(error := turn.get("error"), dict):
                builder.error_text = text_or_none(error.get("message"))
            steps.over(builder, STATES.get(state, "error"), builder.scratch.pop("used", None))


def _item(item: Fields) -> Fields:
    """Return an item of the app server as `codex exec` has it: in snake case, and its texts joined."""
    lists = [value for key in ("summary", "content") if isinstance(value := item.get(key), list)]
    texts = [text for value in lists for text in value if isinstance(text, str)]
    texts += [piece["text"] for value in lists for piece in objects(value) if isinstance(piece.get("text"), str)]
    known = {_words(name): value for name, value in item.items()} | {"type": _words(item["type"])}
    return known if "text" in known or known["type"] in CALLS else {**known, "text": "\n\n".join(texts)}


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. `error` is a type of many, and JSON-RPC's notifications have a mark."""
    match event:
        case {"type": "thread.started", "thread_id": _} | {"type": "turn.started" | "turn.completed" | "turn.failed"}:
            return True
        case {"type": "item.started" | "item.updated" | "item.completed", "item": {"id": _, "type": _}}:
            return True
        case {"method": str(), "params": {"threadId": _} | {"thread": {"id": _}}}:
            return "jsonrpc" not in event
    return False


def _shows(event: Any) -> Sequence[Shown]:
    match event:
        case {"type": "item.completed", "item": {"type": str(kind), "text": str(text)}} if kind in TEXTS:
            return [Shown(TEXTS[kind], text)]
        case {"method": str(kind), "params": {"delta": str(text)}} if kind in TEXTS:
            return [Shown(TEXTS[kind], text)]
        case {"type": "item.started", "item": {"type": str(kind)}} if kind in CALLS:
            return [Shown("tool", kind)]
    return ()


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    match event:
        case {"type": "turn.completed"} | {"method": "turn/completed", "params": {"turn": {"status": "completed"}}}:
            return "complete"
        case {"type": "turn.started" | "turn.failed"} | {"method": "turn/started" | "turn/completed"}:
            return None
    return before


SESSION: Final = ("thread_id", "params.threadId", "params.thread.id")
DIALECT: Final = steps.wire("codex", _take, SESSION, recognises, _shows, _ended)
