"""A run as the Agents SDK streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the SDK sends around it."""
    content = [{"type": "output_text", "text": "".join(deltas), "annotations": []}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 12, "output_tokens": len(deltas), "total_tokens": 12 + len(deltas)}
    response = {"id": "resp_1", "model": "gpt-5.2", "status": "completed", "output": [message], "usage": usage}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    told: list[Fields] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
        *({"type": "response.output_text.delta", **place, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": response},
    ]
    item = {"type": "message_output_item", "raw_item": message, "agent": {"name": "agent"}}
    return [
        {"type": "agent_updated_stream_event", "new_agent": {"name": "agent"}},
        *({"type": "raw_response_event", "data": event} for event in told),
        {"type": "run_item_stream_event", "name": "message_output_created", "item": item},
    ]
