from typing import Any

import pytest

from pipeline.stores.costs.rows import usage_rows
from pipeline.turns.tokens import COUNTS, counts
from turnmill.identity import turn_id

THREAD = "11111111-1111-4111-8111-111111111111"
START = "2026-01-20T10:00:00.000Z"
START_MS = 1768903200000


def response(second: int, **fields: Any) -> dict[str, Any]:
    stamp = f"2026-01-20T10:00:{second:02d}.000Z"
    return {"message_type": "response", "timestamp": stamp, "agent_id": "a1", "parts": [], **fields}


def record(messages: list[dict[str, Any]], total: dict[str, Any] | None = None, **fields: Any) -> Any:
    turn = {"turn_type": "agent", "agent_id": "a1", "started_at": START, "messages": messages}
    turn["completed_at"] = "2026-01-20T10:00:30.000Z"
    if total is not None:
        turn["total_usage"] = total
    run = {"thread_id": THREAD, "run_id": "r", "turn_id": turn_id(THREAD, "r"), "agent_id": "a1", "turn": turn}
    return {**run, "revision": 0, "status": "complete", **fields}


def test_one_row_per_response() -> None:
    messages = [
        response(1, model_name="m", provider_name="p", finish_reason="tool_call", usage={"input_tokens": 50}),
        {"message_type": "request", "timestamp": START, "parts": []},
        response(4, usage={"input_tokens": 80, "output_tokens": 15, "total_tokens": 95, "cache_read_tokens": 7}),
    ]
    timings = [{"ttft_ms": 120, "duration_ms": 900}, {"ttft_ms": None, "duration_ms": 10}]
    first, second = usage_rows(record(messages, timings=timings, tenant="t"))
    assert first == {
        "position": 0,
        "at": START_MS + 1000,
        "agent_id": "a1",
        "tenant": "t",
        "model": "m",
        "provider": "p",
        "finish_reason": "tool_call",
        "request": None,
        "origin": "",
        "requests": 1,
        "turns": 0,
        "interrupted": 0,
        "errors": 0,
        **dict.fromkeys(COUNTS),
        "input_tokens": 50,
        "total_tokens": 50,
        "purpose": "",
        "service_tier": "",
        "summed": False,
        "cost_nano_usd": None,
        "cost_kind": None,
        "computed_nano_usd": None,
        "price_source": "no price: the model is not in the price list",
        "estimated_tokens": None,
        "estimated_nano_usd": None,
        "ttft_ms": 120,
        "duration_ms": 900,
    }
    assert (second["position"], second["cache_read_tokens"], second["total_tokens"]) == (1, 7, 95)
    assert (second["ttft_ms"], second["duration_ms"]) == (None, 10)


def test_the_agents_configuration_names_the_model_where_the_message_does_not() -> None:
    agents = [{"agent_id": "a2", "model_name": "no"}, {"agent_id": "a1", "model_name": "m", "provider_name": "p"}]
    (row,) = usage_rows(record([response(1)], agents=agents))
    assert (row["model"], row["provider"], row["total_tokens"], row["requests"]) == ("m", "p", None, 1)


def test_tokens_that_only_the_total_has_are_a_row_of_their_own_and_no_request() -> None:
    messages = [response(1, model_name="m", finish_reason="stop", usage={"input_tokens": 50, "output_tokens": 20})]
    total = {"input_tokens": 130, "output_tokens": 20, "total_tokens": 150}
    _, rest = usage_rows(record(messages, total))
    assert (rest["requests"], rest["input_tokens"], rest["output_tokens"], rest["total_tokens"]) == (0, 80, None, 80)
    assert (rest["model"], rest["finish_reason"], rest["at"]) == ("m", None, START_MS + 30_000)


def test_a_total_that_its_responses_explain_adds_nothing() -> None:
    usage = {"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}
    assert len(usage_rows(record([response(1, usage=usage)], usage))) == 1


def test_an_interrupted_turn_without_responses_is_billed_by_its_total() -> None:
    (row,) = usage_rows(record([], {"output_tokens": 9}, status="interrupted"))
    assert (row["position"], row["requests"], row["output_tokens"], row["total_tokens"]) == (0, 0, 9, 9)


def test_a_user_turn_and_facts_use_nothing() -> None:
    user = {"turn_type": "user", "submitted_at": START, "parts": []}
    assert usage_rows({**record([]), "turn": user}) == []
    assert usage_rows({**record([]), "turn": None}) == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, {}),
        ("many", {}),
        ({"input_tokens": "12", "output_tokens": True, "total_tokens": -1}, {}),
        ({"input_tokens": 2**70}, {}),
        ({"input_tokens": float("nan")}, {}),
        ({"output_tokens": 3.0}, {"output_tokens": 3, "total_tokens": 3}),
        ({"details": {"reasoning_tokens": 4}}, {"thinking_tokens": 4}),
        ({"thinking_tokens": 5, "details": {"reasoning_tokens": 4}}, {"thinking_tokens": 5}),
        ({"cost": 0.0123}, {"cost_nano_usd": 12_300_000}),
        ({"cost": {"input": 1, "total": 0.5}}, {"cost_nano_usd": 500_000_000}),
        ({"cost": "free"}, {}),
    ],
)
def test_counts_are_whole_numbers_or_unknown(usage: Any, expected: dict[str, int]) -> None:
    assert counts(usage) == expected
