"""A run as OpenAI's Agents SDK for JavaScript streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas; the stream just stops."""
    place = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}
    made: list[Fields] = [
        {"type": "model", "event": {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5"}}},
        *({"type": "output_text_delta", "delta": delta, "providerData": place} for delta in deltas),
    ]
    return [{"type": "raw_model_stream_event", "data": data} for data in made]
