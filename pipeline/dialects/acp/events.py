"""The Agent Client Protocol (dialect `acp`): JSON-RPC lines of an agent, of its client too if they are there.

| line | what it does |
|---|---|
| `session/prompt` | the user's words; behind an answer they begin the next turn |
| `session/update`: `agent_message_chunk`, `agent_thought_chunk` | extends the text or thought of its `messageId` |
| chunks without `messageId` of an agent that has them | SystemMessage `data-app-notice`: words of the program |
| `session/update`: `tool_call`, `tool_call_update` | a call, told piece by piece; `completed`, `failed`: its result |
| `session/update`: `user_message_chunk`, and all between `session/load` and its result | nothing: it is told again |
| `session/update`: `usage_update` | the cost, a sum of the session |
| `session/update`: `session_info_update` | the title; Codex's failures and retries, which take back what is open |
| `session/update`: `plan` and others | SystemMessage `data-app-TYPE`; lists of commands, modes and options: nothing |
| `session/request_permission`, its result | the call that it is about; SystemMessage `data-app-permission` |
| a result with `stopReason` | the turn's end, with its tokens; `cancelled`: aborted |
| the same, after no tokens or Codex's failure | the end is an error, though it says `end_turn` |
| an error of the prompt | the turn's end, in error |
| any other | nothing; a line `{"from", "line"}` of a recorder is its line |

Agents ask again in silence when an answer breaks off: of a text that repeats itself before an error, the last try
stays, and of two texts of Claude Code without a call between them the second.
"""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import steps
from pipeline.dialects.wire_values import is_number, line_of, text_or_none
from pipeline.turns.text import join
from pipeline.turns.tokens import counts
from topics.json_text import Fields, object_of, objects, present

CHUNKS: Final[dict[str, steps.Kind]] = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
SILENT: Final = ("user_message_chunk", "available_commands_update", "current_mode_update", "config_option_update")
REASONS: Final = {"max_tokens": "length", "max_turn_requests": "length", "refusal": "content_filter"}


def _take(builder: Builder, event: Fields) -> None:
    scratch, line = builder.scratch, line_of(event)
    match line:
        case {"method": "session/prompt", "params": {"prompt": list(prompt)}, "id": number}:
            words = [piece["text"] if piece["type"] == "text" else piece for piece in prompt]
            steps.ask(builder, words[0] if len(words) == 1 else words)
            scratch["asked"] = number
        case {"method": "session/load", "id": number}:
            scratch["loading"] = number
        case {"method": "session/update", "params": {"update": {"sessionUpdate": str(kind)} as told}}:
            if "loading" not in scratch and kind not in SILENT:
                _update(builder, told, kind)
        case {
            "method": "session/request_permission",
            "params": {"toolCall": {"toolCallId": str(name)} as told} as asked,
        }:
            _tool(builder, told, name)
            builder.system("data-app-permission", {"tool_call_id": name, "options": asked.get("options")})
        case {"result": {"stopReason": str(reason)} as result}:
            _stopped(builder, reason, result)
        case {"result": {"agentInfo": {"name": str(name)}}}:
            scratch["again"], scratch["last"] = "claude" in name, name == "OpenCode"
            scratch["names"] = "codex" in name or "claude" in name
        case {"result": {"outcome": dict(outcome)}}:
            builder.system("data-app-permission", outcome)
        case {"id": number, "error": {"message": str(text)} as error} if number == scratch.get("asked", line):
            data = error.get("data")
            _fail(builder, text_or_none(object_of(data).get("details")) or text)
        case {"id": number} if number == scratch.get("loading", line) and "method" not in line:
            del scratch["loading"]


def _update(builder: Builder, told: Fields, kind: str) -> None:
    match told:
        case {"content": {"type": "text", "text": str(text)}} if kind in CHUNKS:
            _chunk(builder, told, CHUNKS[kind], text)
        case {"toolCallId": str(call_id)}:
            _tool(builder, told, call_id)
        case {"cost": {"amount": amount, "currency": "USD"}} if is_number(amount):
            builder.scratch["cost"] = amount
        case {"_meta": {"codex": {"error": {"message": str(text)}}}}:
            steps.take_back(builder)
            steps.notice(builder, text)
        case {"_meta": {"codex": {"threadStatus": {"type": state}}}}:
            builder.scratch["failed"] = state == "systemError"
        case {"title": str(title)}:
            builder.thread["title"] = title
        case _ if kind != "usage_update":
            steps.keep(builder, kind, told)


def _chunk(builder: Builder, told: Fields, kind: steps.Kind, text: str) -> None:
    key, scratch = text_or_none(told.get("messageId")) or "", builder.scratch
    if not key and (scratch.get("names") or "_meta" in told):
        builder.error_text = text if scratch.get("failed") else None
        steps.notice(builder, text)
        return
    if key and not scratch.get("names"):  # what came without an id is the program's
        scratch["names"] = True
        for part in builder.open_text.values():
            steps.notice(builder, join(part.chunks))
            part.chunks.clear()
    if scratch.get("again") and any(other != key for other in (*builder.open_text, *builder.open_thinking)):
        steps.take_back(builder)
    steps.say(builder, kind, text, key)


def _tool(builder: Builder, told: Fields, call_id: str) -> None:
    """Add what is new of a call: fields that an update lacks stay as they are."""
    calls: dict[str, Fields] = builder.scratch.setdefault("tools", {})
    now = calls[call_id] = {**calls.get(call_id, {}), **present(told)}
    match told.get("_meta"):
        case {"terminal_output_delta": {"data": str(piece)}}:
            now.setdefault("terminal", []).append(piece)
    args, name = now.get("rawInput"), now.setdefault("tool", now.get("name") or now.get("title"))
    if args is None and "name" not in now:  # Gemini CLI sends a call's title, and no arguments
        name, args = now.get("kind"), {"title": now.get("title")}
    beside = {key: now[key] for key in ("title", "kind", "locations") if now.get(key)}
    if name is not None:  # else an earlier run has the call
        steps.call(builder, call_id, str(name), object_of(args), **{"meta:acp": beside})
    if now.get("status") in ("completed", "failed"):
        steps.result(builder, call_id, _result(now), failed=now["status"] == "failed")


def _result(now: Fields) -> Any:
    match now.get("rawOutput"):
        case None:
            pieces = objects(now.get("content"))
            inner = [piece.get("content") for piece in pieces]
            texts = [text for held in inner if isinstance(held, dict) and isinstance(text := held.get("text"), str)]
            return (
                join(now.get("terminal", []))
                or "".join(texts)
                or [piece for piece in pieces if piece.get("type") == "diff"]
                or None
            )
        case {"output": str(text)}:
            return text
        case raw:
            return raw


def _stopped(builder: Builder, reason: str, result: Fields) -> None:
    usage, scratch = _usage(result), builder.scratch
    match result:
        case {"_meta": {"quota": {"model_usage": [{"model": str(model)}]}}}:
            builder.context.model_name = builder.context.model_name or model
    if reason == "end_turn" and (scratch.pop("failed", False) or (builder.open_text and usage == {})):
        _fail(builder, builder.error_text)
        return
    cost, costs = scratch.get("cost", 0), scratch.get("costs", 0)
    if cost > costs:
        usage, scratch["costs"] = {**(usage or {}), "cost": cost - costs}, cost
    if reason in REASONS and (last := builder.last_response()) is not None:
        last.fields["finish_reason"] = REASONS[reason]
    steps.over(builder, "aborted" if reason == "cancelled" else "complete", usage, summed=not scratch.get("last"))


def _fail(builder: Builder, text: str | None) -> None:
    builder.error_text = text
    steps.take_back(builder, repeated=True)
    steps.over(builder, "error")


def _usage(result: Fields) -> Fields | None:
    """Return the tokens; {} if all are zero, None if there are none. Input has what the cache has, output thoughts."""
    match result:
        case {"usage": dict(told)}:
            usage = counts(told)
            cached = usage.get("cache_read_tokens", 0) + usage.get("cache_write_tokens", 0)
            used = usage.get("input_tokens", 0) + cached
            if used + usage.get("output_tokens", 0) == usage.pop("total_tokens", None):
                usage["input_tokens"] = used
        case {"_meta": {"quota": {"token_count": dict(told)}}}:
            usage = counts(told)
        case _:
            return None
    return usage if any(usage.values()) else {}


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire: a JSON-RPC message of a method of it, or what that returns."""
    match line_of(event):
        case {"jsonrpc": "2.0", "method": str(method)}:
            return method.startswith("session/") or method == "initialize"
        case {
            "jsonrpc": "2.0",
            "result": {"stopReason": _} | {"agentCapabilities": _} | {"sessionId": _} | {"outcome": _},
        }:
            return True
    return False


def _shows(event: Any) -> Sequence[Shown]:
    match line_of(event):
        case {"params": {"update": {"sessionUpdate": str(kind), "content": {"text": str(text)}}}} if kind in CHUNKS:
            return [Shown(CHUNKS[kind], text)]
        case {"params": {"update": {"sessionUpdate": "tool_call", "name": str(name)}}}:
            return [Shown("tool", name)]
        case {"params": {"update": {"sessionUpdate": "tool_call", "title": str(name)}}}:
            return [Shown("tool", name)]
    return ()


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    match line_of(event):
        case {"method": "session/prompt"}:
            return None
        case {"result": {"stopReason": reason}}:
            return "aborted" if reason == "cancelled" else "complete"
    return before


SESSION: Final = ("params.sessionId", "result.sessionId", "line.params.sessionId")
DIALECT: Final = steps.wire("acp", _take, SESSION, recognises, _shows, _ended)
