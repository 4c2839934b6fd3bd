"""Filters that remove from a turn's essence what a wire can't carry: each wire's `losses` combine them.

Each function returns, or is, a `Drop`, which makes a new essence (see `pipeline.turns.canonical`) from another, and
does not change the given one. A message that loses its last part is removed.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pipeline.turns.media_kinds import URL_KINDS
from topics.json_text import Fields
from topics.part_kinds import RESULTS

Drop = Callable[[Fields], Fields]

FILE_KINDS: Final = URL_KINDS | {"binary"}
FILE_TEXT: Final = "[File: "


# ---- fields


def turn_fields(*names: str) -> Drop:
    """Drop these fields of the turn."""
    return lambda turn: _less(turn, names)


def response_fields(*names: str) -> Drop:
    """Drop these fields of responses."""
    return lambda turn: _messages(turn, lambda m: _less(m, names) if m["message_type"] == "response" else m)


def part_fields(kind: str, *names: str) -> Drop:
    """Drop these fields of parts of this kind."""
    return lambda turn: _parts(turn, lambda part: _less(part, names) if part["part_kind"] == kind else part)


def nulls(turn: Fields) -> Fields:
    """Return the turn without fields of parts that are null."""
    return _parts(
        turn, lambda part: {key: value for key, value in part.items() if value is not None or key == "content"}
    )


def finish_reasons(*, but_the_last: bool) -> Drop:
    """Derive the finish reasons of responses from their parts; with `but_the_last`, the last keeps its reason."""

    def drop(turn: Fields) -> Fields:
        last = next((m for m in reversed(turn.get("messages", ())) if m["message_type"] == "response"), None)
        return _messages(turn, lambda m: m if but_the_last and m is last else _reason_by_parts(m))

    return drop


def _reason_by_parts(message: Fields) -> Fields:
    if message["message_type"] != "response":
        return message
    calls = any(part["part_kind"] == "tool-call" for part in message["parts"])
    return {**message, "finish_reason": "tool_call" if calls else "stop"}


# ---- parts and messages


def parts(which: Callable[[Fields], bool]) -> Drop:
    """Drop parts for which `which` is true."""
    return lambda turn: _parts(turn, lambda part: None if which(part) else part)


def events(which: Callable[[str], bool]) -> Drop:
    """Drop system messages for whose event type `which` is true."""

    def kept(message: Fields) -> Fields | None:
        return None if message["message_type"] == "system" and which(message["event_type"]) else message

    return lambda turn: _messages(turn, kept)


def answers(change: Callable[[Fields], Fields]) -> Drop:
    """Apply `change` to results of tools."""
    return lambda turn: _parts(turn, lambda part: change(part) if is_answer(part) else part)


def is_answer(part: Fields) -> bool:
    """Return True if the part is a tool's result. A retry prompt is one if it names a tool."""
    return part["part_kind"] in RESULTS and (part["part_kind"] != "retry-prompt" or bool(part.get("tool_name")))


def is_retry_without_tool(part: Fields) -> bool:
    """Return True if the part asks the model to answer again, and belongs to no tool call; wires don't carry it."""
    return part["part_kind"] == "retry-feedback" or (part["part_kind"] == "retry-prompt" and not is_answer(part))


# ---- results


def failure(part: Fields) -> Fields:
    """Return a failed result without the reason of the failure; other results unchanged."""
    failed = part["part_kind"] == "retry-prompt" or part.get("status", "success") != "success"
    if not failed and part.get("outcome", "success") == "success":
        return part
    same: Fields = {key: part[key] for key in ("tool_name", "tool_call_id") if key in part}
    return {"part_kind": part["part_kind"].replace("retry-prompt", "tool-return"), **same, "status": "error"}


def nothing_is_empty(part: Fields) -> Fields:
    """Return the part; a result of null becomes an empty object."""
    return {**part, "content": {}} if part.get("content", {}) is None else part


def files_in_results(part: Fields) -> Fields:
    """Return the part; a result that has a file loses its content."""
    return _less(part, ("content",)) if _holds_file(part.get("content")) else part


def _holds_file(content: Any) -> bool:
    if isinstance(content, dict):
        return content.get("kind") in FILE_KINDS or any(map(_holds_file, content.values()))
    if isinstance(content, list):
        return any(map(_holds_file, content))
    return isinstance(content, str) and content.startswith(FILE_TEXT)


def earlier_runs_calls(turn: Fields) -> Fields:
    """Return the turn; a result of a call of an earlier run keeps only the call's id."""
    called = {part["tool_call_id"] for part in _all_parts(turn) if part["part_kind"].endswith("tool-call")}

    def bare(part: Fields) -> Fields:
        if not is_answer(part) or part.get("tool_call_id") in called:
            return part
        return {"part_kind": "tool-return", "tool_call_id": part.get("tool_call_id")}

    return _parts(turn, bare)


def calls_answered(*contents: str) -> Drop:
    """Drop calls whose result is one of these, and the results."""

    def drop(turn: Fields) -> Fields:
        dropped = {
            part["tool_call_id"] for part in _all_parts(turn) if is_answer(part) and part.get("content") in contents
        }
        return _parts(turn, lambda part: None if part.get("tool_call_id") in dropped else part)

    return drop


# ---- steps


def unsettled_steps(turn: Fields) -> Fields:
    """Return an interrupted turn without its last steps that have no result or a failed one."""
    if turn.get("completion_status") != "interrupted":
        return turn
    messages = turn["messages"]
    while (response := _last(messages, "response")) >= 0:
        answer = _last(messages, "request")
        if answer > response and not any(map(_failed, messages[answer]["parts"])):
            break
        messages = messages[:response]
    return {**turn, "messages": messages}


def _failed(part: Fields) -> bool:
    return is_answer(part) and failure(part) is not part


def _last(messages: list[Fields], kind: str) -> int:
    """Return the index of the last message of this kind; -1 if there is none."""
    return max((n for n, message in enumerate(messages) if message["message_type"] == kind), default=-1)


def joined_text(turn: Fields) -> Fields:
    """Return the turn with consecutive texts of a response joined."""
    return _messages(turn, lambda m: {**m, "parts": _joined(m["parts"])} if m["message_type"] == "response" else m)


def _joined(parts: list[Fields]) -> list[Fields]:
    out: list[Fields] = []
    for part in parts:
        if out and part["part_kind"] == out[-1]["part_kind"] == "text":
            out[-1] = {**part, **out[-1], "content": out[-1]["content"] + part["content"]}
        else:
            out.append(part)
    return out


def joined_responses(turn: Fields) -> Fields:
    """Return the turn with consecutive responses joined."""
    out: list[Fields] = []
    for message in turn.get("messages", ()):
        if out and message["message_type"] == out[-1]["message_type"] == "response":
            out[-1] = {**out[-1], **message, "parts": [*out[-1]["parts"], *message["parts"]]}
        else:
            out.append(message)
    return {**turn, "messages": out} if "messages" in turn else turn


# ---- walking


def _less(fields: Fields, names: tuple[str, ...]) -> Fields:
    return {key: value for key, value in fields.items() if key not in names}


def _all_parts(turn: Fields) -> Iterator[Fields]:
    for message in turn.get("messages", ()):
        yield from message.get("parts", ())


def _messages(turn: Fields, change: Callable[[Fields], Fields | None]) -> Fields:
    if "messages" not in turn:
        return turn
    changed = (change(message) for message in turn["messages"])
    return {**turn, "messages": [message for message in changed if message is not None]}


def _parts(turn: Fields, change: Callable[[Fields], Fields | None]) -> Fields:
    def changed(holder: Fields) -> Fields | None:
        if not holder.get("parts"):
            return holder
        kept = [part for part in map(change, holder["parts"]) if part is not None]
        return {**holder, "parts": kept} if kept else None

    if "parts" in turn:  # of a user
        return changed(turn) or {**turn, "parts": []}
    return _messages(turn, changed)
