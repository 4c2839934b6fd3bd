"""A run as the Responses API streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    whole = {**item, "content": [{"type": "output_text", "text": "".join(deltas), "annotations": []}]}
    response = {"id": "resp_1", "object": "response", "model": "m", "output": []}
    usage = {"input_tokens": 12, "output_tokens": len(deltas)}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": "response.output_text.delta", **place, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {**response, "output": [whole], "usage": usage}},
    ]
