"""A run as A2A's servers stream it, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields


def answer(deltas: Sequence[str]) -> list[Fields]:
    """-> the events of an answer with these text deltas."""
    ids = {"taskId": "t", "contextId": "c"}

    def result(kind: str, **told: object) -> Fields:
        return {"jsonrpc": "2.0", "id": 1, "result": {kind: {**ids, **told}}}

    return [
        *(
            result("artifactUpdate", artifact={"artifactId": "a", "parts": [{"text": delta}]}, append=number > 0)
            for number, delta in enumerate(deltas)
        ),
        result("statusUpdate", status={"state": "TASK_STATE_COMPLETED"}),
    ]
