"""A run as the Realtime API says it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    item = {"type": "message", "id": "item_1", "role": "assistant", "content": []}
    place = {"response_id": "resp_1", "output_index": 0, "item_id": "item_1", "content_index": 0}
    whole = {**item, "content": [{"type": "output_text", "text": "".join(deltas)}]}
    response = {"id": "resp_1", "object": "realtime.response", "status": "in_progress", "output": []}
    usage = {"input_tokens": 12, "output_tokens": len(deltas), "total_tokens": 12 + len(deltas)}
    events: list[Fields] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": "response.output_text.delta", **place, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.done", "response": {**response, "status": "completed", "output": [whole], "usage": usage}},
    ]
    return [{**event, "event_id": f"event_{number}"} for number, event in enumerate(events)]
