"""ThreadProtocol 0.0.4's invariants of turns, beyond the validation rules: their ends and their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from topics.findings import Finding, Severity, joined, objects, shown
from topics.json_text import Fields


def endings(document: Fields) -> Iterator[Finding]:
    """Yield findings on the ends of turns.

    An interrupted turn has an interruption and no `completed_at`; a complete turn has `completed_at`.
    """
    old = document.get("version") == "0.0.3"
    for path, turn in objects(document, "turns"):
        if turn.get("turn_type") != "agent":
            continue
        completed, interruption = turn.get("completed_at"), turn.get("interruption")
        if turn.get("completion_status") == "interrupted":
            if old:
                message = "0.0.3 has no interrupted turns: write version 0.0.4, or drop the turn"
                yield Finding("version", "error", joined(path, "completion_status"), message)
            if interruption is None or (isinstance(interruption, dict) and interruption.get("reason") == ""):
                message = "An interrupted turn says why: add interruption {reason, interrupted_at}"
                yield Finding("interruption", "error", joined(path, "interruption"), message)
            if completed is not None:
                message = "An interrupted turn was never completed: drop this, interruption.interrupted_at says when"
                yield Finding("completed_at", "error", joined(path, "completed_at"), message)
        else:
            if interruption is not None:
                message = "A complete turn has no interruption: drop it, or set completion_status to interrupted"
                yield Finding("interruption", "warning", joined(path, "interruption"), message)
            if completed is None:
                severity: Severity = "error" if old else "warning"
                yield Finding("completed_at", severity, joined(path, "completed_at"), "Say when the turn was completed")


def complete_cycles(document: Fields) -> Iterator[Finding]:
    """Yield findings on tool calls that the request after their response doesn't answer.

    Only a complete turn may end with open calls, which its client runs. Earlier open calls are a warning in a complete
    turn, and an error in an interrupted one.
    """
    for path, turn in objects(document, "turns"):
        interrupted = turn.get("completion_status") == "interrupted"
        messages = list(objects(turn, "messages", path))
        responses = [n for n, (_, message) in enumerate(messages) if message.get("message_type") == "response"]
        for number, following in pairwise([*responses, len(messages)]):
            where, response = messages[number]
            if interrupted and response.get("parts") == []:
                message = "A response without complete parts is not stored: drop it, total_usage keeps its tokens"
                yield Finding("cycles", "warning", joined(where, "parts"), message)
            if number == responses[-1] and not interrupted:
                continue
            requests = [request for _, request in messages[number + 1 : following]]
            answers = [part.get("tool_call_id") for request in requests for _, part in objects(request, "parts")]
            for at, part in objects(response, "parts", where):
                call_id = part.get("tool_call_id")
                if part.get("part_kind") == "tool-call" and call_id not in answers:
                    message = (
                        f"No request behind this response answers the call {shown(call_id)}: add its return, or drop it"
                    )
                    yield Finding("cycles", "error" if interrupted else "warning", at, message)


def stored_parts(document: Fields) -> Iterator[Finding]:
    """Yield findings on parts: no system prompts, tool arguments as data, files with content or a reference."""
    for path, turn in objects(document, "turns"):
        for owner_path, owner in ((path, turn), *objects(turn, "messages", path)):
            for at, part in objects(owner, "parts", owner_path):
                kind = part.get("part_kind")
                if kind == "system-prompt":
                    message = "System prompts are not stored: drop the part, the agent's config_ref may lead to it"
                    yield Finding("system-prompt", "error", joined(at, "part_kind"), message)
                elif kind == "tool-call" and isinstance(part.get("args"), str):
                    message = "Tool arguments are stored as data: parse this JSON text"
                    yield Finding("tool-args", "error", joined(at, "args"), message)
                elif kind == "file" and part.get("content") is None and part.get("content_ref") is None:
                    message = "A file part without its file: add content, or a content_ref"
                    yield Finding("file", "error", joined(at, "content"), message)


INVARIANTS: Final[tuple[Callable[[Fields], Iterator[Finding]], ...]] = (endings, complete_cycles, stored_parts)
