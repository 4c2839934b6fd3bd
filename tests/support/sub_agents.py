"""A run of Claude Code whose sub-agent speaks in its stream: two threads, made of one run's events."""

from typing import Any, Final

CALL: Final = {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"subagent_type": "finder"}}
RESULT: Final = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}


def said(parent: str | None, name: str, block: dict[str, Any], output: int) -> list[dict[str, Any]]:
    """One message of a thread, with partial messages."""
    message = {"id": name, "type": "message", "role": "assistant", "model": "claude", "usage": {"input_tokens": 7}}
    usage = {"output_tokens": output}
    raw = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    rest = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    line = {"type": "assistant", "message": {**message, "content": [block]}, "parent_tool_use_id": parent}
    streamed = [
        [{"type": "stream_event", "event": one, "parent_tool_use_id": parent} for one in some] for some in (raw, rest)
    ]
    return [*streamed[0], line, *streamed[1]]


def delegating_run() -> list[dict[str, Any]]:
    """The parent's responses have 11 and 5 tokens of output; the sub-agent's, whose agent is `finder`, has 23."""
    return [
        *said(None, "m1", CALL, 11),
        *said("toolu_1", "m2", {"type": "text", "text": "found"}, 23),
        {"type": "user", "message": {"role": "user", "content": [RESULT]}, "parent_tool_use_id": None},
        *said(None, "m3", {"type": "text", "text": "There."}, 5),
        {"type": "result", "subtype": "success", "is_error": False, "result": "There."},
    ]
