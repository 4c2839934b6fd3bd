"""Costs that a gateway tells in a header: they come into the usage of the answer, which tells none itself."""

import json
from typing import Any

import pytest

from pipeline.turns.tokens import counts
from turnmill.capture.exchange import Exchange
from turnmill.capture.told_costs import told_cost, with_cost

USAGE = {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}
WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "7 °C"}}],
    "usage": USAGE,
}


@pytest.mark.parametrize(
    ("headers", "dollars"),
    [
        ({"x-litellm-response-cost": "0.000415"}, 0.000415),
        ({"x-litellm-response-cost": "4.15e-06"}, 4.15e-06),  # str() of a float, as LiteLLM 1.110 writes it
        ({"x-nr-request-cost": "0.25"}, 0.25),
        ({"x-litellm-response-cost": "0.0"}, None),  # of a stream, or a model that it has no price for
        ({"x-litellm-response-cost": ""}, None),
        ({"x-litellm-response-cost": "None"}, None),
        ({"x-litellm-response-cost": "nan"}, None),
        ({"x-litellm-response-cost": "inf"}, None),
        ({"x-litellm-response-cost": "-1"}, None),
        ({"x-litellm-response-cost": "", "x-nr-request-cost": "0.25"}, 0.25),
        ({"x-litellm-response-cost-original": "1.5", "x-litellm-key-spend": "12"}, None),
        ({}, None),
    ],
)
def test_what_headers_tell(headers: dict[str, str], dollars: float | None) -> None:
    assert told_cost(headers) == dollars


@pytest.mark.parametrize(
    "event",
    [
        {"object": "chat.completion.chunk", "choices": [], "usage": {**USAGE, "cost": 0.5}},
        {"type": "response.completed", "response": {"usage": {"input_tokens": 1, "cost_in_usd_ticks": 7}}},
        {"object": "chat.completion", "usage": {**USAGE, "estimated_cost": 0.1}},
        {"object": "chat.completion.chunk", "choices": [], "usage": None},
        {"type": "content_block_delta", "delta": {"text": "usage"}},
        {"type": "response.created", "response": {"object": "response", "status": "in_progress", "usage": None}},
    ],
)
def test_what_a_body_tells_itself_stays(event: dict[str, Any]) -> None:
    assert with_cost(event, 0.25) == event


@pytest.mark.parametrize(
    ("dialect", "event", "path"),
    [
        ("openai-chat", WHOLE, ("usage",)),
        (
            "openai-responses",
            {"object": "response", "status": "completed", "output": [], "usage": {"input_tokens": 1}},
            ("usage",),
        ),
        (
            "openai-responses",
            {"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 1}}},
            ("response", "usage"),
        ),
        ("anthropic", {"type": "message", "content": [], "usage": {"input_tokens": 1}}, ("usage",)),
        ("anthropic", {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}, ("message", "usage")),
        ("gemini", {"candidates": [], "usageMetadata": {"promptTokenCount": 1}}, ("usageMetadata",)),
        (
            "gemini",
            {"response": {"candidates": [], "usageMetadata": {"promptTokenCount": 1}}},
            ("response", "usageMetadata"),
        ),
        ("openai-chat", {"object": "chat.completion", "choices": [], "usage": None}, ("usage",)),
        ("anthropic", {"type": "message", "content": []}, ("usage",)),
    ],
)
def test_where_it_goes(dialect: str, event: dict[str, Any], path: tuple[str, ...]) -> None:
    before = json.dumps(event)
    exchange = Exchange(dialect, {"stream": True})
    exchange.answered(200, {"content-type": "text/event-stream", "x-litellm-response-cost": "0.25"})
    (usage,) = exchange.data(f"data: {before}\n\n".encode())
    for name in path:
        usage = usage[name]
    assert usage["cost_usd"] == 0.25
    assert counts(usage)["cost_nano_usd"] == 250_000_000
    assert json.dumps(event) == before


def test_nothing_is_told() -> None:
    exchange = Exchange("openai-chat", {})
    exchange.answered(200, {"content-type": "application/json", "x-litellm-response-cost": "0.0"})
    assert [*exchange.data(json.dumps(WHOLE).encode()), *exchange.finished()] == [WHOLE]
