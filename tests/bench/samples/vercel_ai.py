"""A run as the AI SDK streams it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    return [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t1"},
        *({"type": "text-delta", "id": "t1", "delta": delta} for delta in deltas),
        {"type": "text-end", "id": "t1"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def tool_results(results: Sequence[str]) -> list[Fields]:
    """-> the events of a run with a tool call for each of these results, and a closing text."""
    events: list[Fields] = [{"type": "start"}]
    for number, result in enumerate(results):
        call = {"toolCallId": f"call-{number}"}
        events += [
            {"type": "start-step"},
            {"type": "tool-input-start", **call, "toolName": "search"},
            {"type": "tool-input-available", **call, "toolName": "search", "input": {"query": f"topic {number}"}},
            {"type": "tool-output-available", **call, "output": {"text": result}},
            {"type": "finish-step"},
        ]
    return [*events, *answer(["Found ", "it."])[1:]]
