"""What is told of an open run's use: that of all finished responses."""

from typing import Any

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.property.records import envelope
from topics.telemetry import OPEN_USAGE
from turnmill.wire.envelope import encode


def response(number: int) -> list[dict[str, Any]]:
    """One answer of Anthropic's API, with a call of a tool, which the next request answers."""
    result = {"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": "sunny"}
    content = [result] if number else "Weather?"
    request = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "claude", "content": []}
    message["usage"] = {"input_tokens": 10 + number, "output_tokens": 1}
    call = {"type": "tool_use", "id": f"t{number}", "name": "weather", "input": {}}
    return [
        {"type": "turnmill.request", "request": request},
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def fed(partition: Partition, first: int, count: int, end: str | None = None) -> list[tuple[str, int]]:
    """Feed so many responses, and let time pass -> type and tokens of what is told."""
    for number in range(first, first + count):
        events = response(number)
        record = envelope("anthropic", events, number * len(events))
        if end is not None and number == first + count - 1:
            record["end"] = end
        partition.feed([StoredRecord(encode(record), number, number)])
    partition.tick(first + count)
    told, partition.out.telemetry = partition.out.telemetry, []
    return [
        (one["type"], row["input_tokens"])
        for one in told
        for row in (one["data"]["used"] if one["type"] == OPEN_USAGE else [one["data"]])
        if "input_tokens" in row
    ]


def test_finished_responses_are_told_while_the_run_is_open() -> None:
    partition = Partition(DIALECTS, Limits(tell_use=True), 0)
    assert fed(partition, 0, 1) == []
    assert fed(partition, 1, 2) == [(OPEN_USAGE, 10), (OPEN_USAGE, 11)]
    assert fed(partition, 3, 0) == [], "nothing is new"
    assert fed(partition, 3, 1) == [(OPEN_USAGE, 10), (OPEN_USAGE, 11), (OPEN_USAGE, 12)]
    assert fed(partition, 4, 1, "complete") == [("data-sys-usage", 10 + number) for number in range(5)]


def test_it_is_told_by_call_with_all_tokens() -> None:
    partition = Partition(DIALECTS, Limits(tell_use=True), 0)
    for number in range(3):
        events = response(number)
        partition.feed([StoredRecord(encode(envelope("anthropic", events, number * len(events))), number, number)])
    partition.tick(3)
    [told] = partition.out.telemetry
    used = [(row["model_name"], row["input_tokens"], row["output_tokens"]) for row in told["data"]["used"]]
    assert used == [("claude", 10, 5), ("claude", 11, 5)]


def test_nothing_is_told_where_no_budget_needs_it() -> None:
    assert fed(Partition(DIALECTS, Limits(), 0), 0, 3) == []


def test_what_is_stored_already_is_not_told_again() -> None:
    partition = Partition(DIALECTS, Limits(tell_use=True, idle_ms=1_000), 0)
    events = [event for number in range(5) for event in response(number)]

    def feed(first: int, last: int, at: int) -> None:
        record = envelope("anthropic", events[first:last], first)
        partition.feed([StoredRecord(encode(record), at, at)])

    feed(0, 15, 1)  # in the midst of the third
    partition.tick(2)
    assert [one["type"] for one in partition.out.telemetry] == [OPEN_USAGE]
    partition.tick(2_000)
    assert partition.out.turns[-1]["status"] == "interrupted"
    partition.out.telemetry.clear()
    feed(15, 30, 2_001)
    partition.tick(2_002)
    assert partition.open_runs() == 1
    assert partition.out.telemetry == []
