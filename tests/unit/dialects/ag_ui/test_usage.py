"""AG-UI: the tokens of runs, by model, by call, and as they grow, and what they are billed."""

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


def test_tanstacks_chat_tells_each_call_without_a_list() -> None:
    """@tanstack/ai 0.58.0 with @tanstack/ai-openai: what `chat()` yields of Chat Completions."""
    start, end, result = call(0)
    first, last = (
        {
            "type": "RUN_FINISHED",
            "usage": {"promptTokens": read, "completionTokens": written, "totalTokens": read + written},
            "metadata": {"tanstack": {"model": "gpt-5-mini", "finishReason": reason}},
        }
        for reason, read, written in (("tool_calls", 40, 8), ("stop", 20, 10))
    )
    got = run(start, end, first, result, *text("Done."), last)
    assert [(row["input_tokens"], row["output_tokens"]) for row in bill(got)] == [(40, 8), (20, 10)]


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


def agno(read: int, written: int, provider: str = "OpenAI", depth: int = 0, **more: int) -> Fields:
    """As Agno 3.1.10 writes it in its AG-UI router, of a real run."""
    names = {"event": "ModelRequestCompleted", "run_id": "r", "nested_depth": depth, "model_provider": provider}
    names |= {"model": "gpt-5.4" if provider == "OpenAI" else "claude-sonnet-4-6"}
    counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, "reasoning_tokens": 0}
    return {"type": "RAW", "source": "agno", "event": {**names, **counts, "cache_read_tokens": 0, **more}}


def test_agno_tells_the_tokens_of_each_call_where_it_ends() -> None:
    got = run(
        {"type": "RAW", "source": "agno", "event": {"event": "ModelRequestStarted", "model": "gpt-5.4"}},
        *text("Looking."),
        agno(50, 11, cache_read_tokens=20),
        *call(1),
        agno(60, 12),  # of a call that says nothing: Agno writes it before the call's tools
        *call(2),
        *text("It is sunny."),
        agno(80, 7),
        finished(),
    )
    rows = bill(got)
    assert [(row["input_tokens"], row["output_tokens"]) for row in rows] == [(50, 11), (60, 12), (80, 7)]
    assert [row["cache_read_tokens"] for row in rows] == [20, None, None], "its zeros are also what it wasn't told"
    assert {(row["model"], row["provider"]) for row in rows} == {("gpt-5.4", "openai")}
    assert len(got.turns[-1]["messages"]) == 5


def test_calls_of_agnos_team_members_are_beside_the_answer() -> None:
    got = run(
        *text("I ask."),
        agno(50, 11),
        agno(1_000, 30, "Anthropic", 1, cache_read_tokens=500),
        *call(1),
        *text("Done."),
        agno(80, 7),
        finished(),
    )
    assert billed(got, "input_tokens", "output_tokens") == (50 + 1_500 + 80, 48)
    beside = next(row for row in bill(got) if row["purpose"])
    assert (beside["model"], beside["input_tokens"], beside["purpose"]) == ("claude-sonnet-4-6", 1_500, "sub-agent")
