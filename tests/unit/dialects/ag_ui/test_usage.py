"""AG-UI: the tokens of runs, by model, by call, and as they grow, and what they are billed."""

from __future__ import annotations

from typing import Any

from tests.support.assembled import START, Assembled, assembled
from tests.support.bills import bill, billed

Fields = dict[str, Any]
LATER: int = START + 300 * 86_400_000  # November 2026


def call(number: int) -> list[Fields]:
    who = {"toolCallId": f"c{number}"}
    result = {"type": "TOOL_CALL_RESULT", "messageId": f"r{number}", **who, "content": "ok"}
    return [{"type": "TOOL_CALL_START", **who, "toolCallName": "step"}, {"type": "TOOL_CALL_END", **who}, result]


def text(said: str) -> list[Fields]:
    who = {"messageId": said}
    return [
        {"type": "TEXT_MESSAGE_START", **who},
        {"type": "TEXT_MESSAGE_CONTENT", **who, "delta": said},
        {"type": "TEXT_MESSAGE_END", **who},
    ]


def finished(*usages: Fields, **more: Any) -> Fields:
    return {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "usage": list(usages), **more}


def used(model: str, read: int, written: int) -> Fields:
    counts = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
    return {"model": model, "provider": "openai", **counts}


def run(*events: Fields) -> Assembled:
    got = assembled("ag-ui", [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}, *events], ts=LATER)
    assert got.refused == []
    return got


def costs(got: Assembled) -> list[tuple[int, int]]:
    return [(row["cost_nano_usd"], row["cost_kind"]) for row in bill(got) if row["cost_nano_usd"] is not None]


def test_a_sum_of_calls_is_an_estimate_below_the_tier() -> None:
    calls = [event for number in range(5) for event in call(number)]
    # 300,000 × $2.50 + 1,000 × $15 per million; one call of 300,000 would be above the tier of 272,000
    assert costs(run(*calls, *text("Done."), finished(used("gpt-5.4", 300_000, 1_000)))) == [(765_000_000, 2)]
    assert costs(run(*text("Done."), finished(used("gpt-5.4", 300_000, 1_000)))) == [(1_522_500_000, 1)]


def test_each_model_has_its_price() -> None:
    got = run(*call(0), *text("Done."), finished(used("gpt-5.4", 100_000, 0), used("gpt-5.4-mini", 1_000_000, 0)))
    assert costs(got) == [(250_000_000, 1), (750_000_000, 1)]
    assert billed(got, "input_tokens", "requests") == (1_100_000, 2)


def test_tanstack_tells_each_call() -> None:
    def told(reason: str, read: int, written: int) -> Fields:
        counts = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
        return finished(counts, metadata={"tanstack": {"model": "gpt-5.4", "finishReason": reason}})

    start, end, result = call(0)
    got = run(start, end, told("tool_calls", 20, 10), result, *text("Done."), told("stop", 40, 8))
    assert [(row["model"], row["input_tokens"], row["output_tokens"]) for row in bill(got)] == [
        ("gpt-5.4", 20, 10),
        ("gpt-5.4", 40, 8),
    ]
    assert got.agent_turns[0]["completion_status"] == "complete"
    broken = run(start, end, told("tool_calls", 20, 10), result, *text("Do"))
    assert broken.agent_turns[0]["completion_status"] == "interrupted"
    waiting = run(start, end, told("tool_calls", 20, 10))
    assert waiting.agent_turns[0]["completion_status"] == "complete", "a tool of the client"


def test_microsofts_agent_framework_tells_the_run_so_far() -> None:
    def told(read: int, written: int, **more: int) -> Fields:
        counts = {"input_token_count": read, "output_token_count": written, "total_token_count": read + written}
        return {"type": "CUSTOM", "name": "usage", "value": counts | more}

    start, end, result = call(0)
    first = [start, told(20, 10), end, result]
    got = run(*first, *text("Done."), told(60, 18, cache_read_input_token_count=15), finished())
    assert [(row["input_tokens"], row["output_tokens"], row["cache_read_tokens"]) for row in bill(got)] == [
        (20, 10, None),
        (40, 8, 15),
    ]
    assert billed(run(*first, *text("Done."), told(60, 18), told(60, 18), finished()), "input_tokens") == (60,)
    mood = {"type": "CUSTOM", "name": "usage", "value": {"screen": 3}}
    assert billed(run(*text("Done."), mood, finished()), "input_tokens") == (None,)
