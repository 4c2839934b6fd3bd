"""A run as Claude Code streams it with partial messages, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, its line, and the result."""
    usage = {"input_tokens": 12, "output_tokens": len(deltas)}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "usage": {"input_tokens": 12}}
    text = "".join(deltas)
    content = [{"type": "text", "text": text}]
    return [
        {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude", "tools": []},
        _event("message_start", message=message),
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(_event("content_block_delta", index=0, delta={"type": "text_delta", "text": delta}) for delta in deltas),
        {"type": "assistant", "message": {**message, "content": content}, "parent_tool_use_id": None},
        _event("content_block_stop", index=0),
        _event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage),
        _event("message_stop"),
        {"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": usage},
    ]


def _event(kind: str, **said: object) -> Fields:
    return {"type": "stream_event", "event": {"type": kind, **said}, "parent_tool_use_id": None}
