"""A run as Gemini's Interactions API streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what the API sends around it."""
    interaction = {"id": "int_1", "object": "interaction", "model": "m"}
    usage = {"total_input_tokens": 12, "total_output_tokens": len(deltas)}
    said = ({"type": "text", "text": delta} for delta in deltas)
    return [
        {"event_type": "interaction.created", "interaction": {**interaction, "status": "in_progress"}},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        *({"event_type": "step.delta", "index": 0, "delta": delta} for delta in said),
        {"event_type": "step.stop", "index": 0},
        {
            "event_type": "interaction.completed",
            "interaction": {**interaction, "status": "completed", "usage": usage},
        },
    ]
