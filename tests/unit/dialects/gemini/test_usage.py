"""Gemini and ADK: counts by modality, tiers and searches, and what they are billed. Names: google-genai 3.6."""

from typing import Any

import pytest

from tests.support.assembled import START, Assembled, assembled
from tests.support.bills import bill, billed

Fields = dict[str, Any]
LATER: int = START + 300 * 86_400_000  # November 2026
WEB: Fields = {"web": {"uri": "https://x.y", "title": "X"}}
CALL: Fields = {"promptTokenCount": 1_000, "candidatesTokenCount": 100, "totalTokenCount": 1_100}


def modal(**counts: int) -> list[Fields]:
    return [{"modality": name.upper(), "tokenCount": count} for name, count in counts.items()]


def over(wire: str, usage: Fields, model: str = "gemini-2.5-flash", **candidate: Any) -> Assembled:
    content = {"role": "model", "parts": [{"text": "A blackbird."}]}
    if wire == "gemini":
        answer = {"content": content, "finishReason": "STOP", "index": 0, **candidate}
        event: Fields = {"candidates": [answer], "modelVersion": model, "responseId": "r1", "usageMetadata": usage}
    else:
        who = {"id": "e1", "invocationId": "i1", "author": "helper", "actions": {}}
        event = {**who, "content": content, "modelVersion": model, "usageMetadata": usage, **candidate}
    return assembled(wire, [event], ts=LATER, end="complete")


wires = pytest.mark.parametrize("wire", ["gemini", "google-adk"])


@wires
def test_audio_in_the_input_has_its_price(wire: str) -> None:
    counts = {"promptTokenCount": 10_200, "candidatesTokenCount": 20, "totalTokenCount": 10_220}
    got = over(wire, counts | {"promptTokensDetails": modal(text=200, audio=10_000)})
    assert billed(got, "input_tokens", "input_audio_tokens", "output_tokens") == (10_200, 10_000, 20)
    # 200 × $0.30 + 10,000 × $1.00 + 20 × $2.50 per million
    assert billed(got, "cost_nano_usd") == (10_110_000,)


@wires
def test_every_list_of_modalities_is_read(wire: str) -> None:
    counts = {"promptTokenCount": 900, "toolUsePromptTokenCount": 50, "cachedContentTokenCount": 300}
    lists = {
        "promptTokensDetails": modal(text=100, audio=500, image=200, video=60, document=40),
        "toolUsePromptTokensDetails": [{"modality": "AUDIO", "token_count": 50}],
        "cacheTokensDetails": modal(audio=200, image=100),
        "candidatesTokensDetails": modal(text=10, audio=20, image=70),
    }
    got = over(wire, {**counts, "candidatesTokenCount": 100, "thoughtsTokenCount": 30, **lists})
    names = ("input_tokens", "input_audio_tokens", "input_image_tokens", "output_tokens", "thinking_tokens")
    assert billed(got, *names) == (950, 550, 200, 130, 30)
    assert billed(got, "cache_audio_read_tokens", "cache_image_read_tokens") == (200, 100)
    assert billed(got, "output_audio_tokens", "output_image_tokens") == (20, 70)


@wires
@pytest.mark.parametrize(
    ("told", "tier"),
    [
        ({"trafficType": "ON_DEMAND"}, ""),
        ({"trafficType": "ON_DEMAND_FLEX"}, "flex"),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, "provisioned"),
        ({"serviceTier": "flex"}, "flex"),
        ({"serviceTier": "unspecified"}, ""),
        ({"serviceTier": "standard"}, ""),
    ],
)
def test_the_tier_that_served_a_call(wire: str, told: Fields, tier: str) -> None:
    (row,) = bill(over(wire, CALL | told))
    assert row["service_tier"] == tier
    assert (row["cost_nano_usd"] is None) == bool(tier)


@wires
@pytest.mark.parametrize(
    ("model", "grounding", "count"),
    [
        ("gemini-3-pro-preview", {"webSearchQueries": ["a", "b", "a", " "], "groundingChunks": [WEB]}, 2),
        ("gemini-3-pro-preview", {"webSearchQueries": ["a", "b"]}, 2),
        ("gemini-2.5-flash", {"webSearchQueries": ["a", "b"], "groundingChunks": [WEB]}, 1),
        ("publishers/google/models/gemini-2.5-flash", {"webSearchQueries": ["a"], "groundingChunks": [WEB]}, 1),
        ("gemini-2.5-flash", {"webSearchQueries": ["a", "b"]}, None),
        (
            "gemini-3-pro-preview",
            {"webSearchQueries": ["a"], "groundingChunks": [{"maps": {"uri": "https://m"}}]},
            None,
        ),
        ("gemini-3-pro-preview", {"groundingChunks": [WEB]}, None),
    ],
)
def test_searches_as_google_bills_them(wire: str, model: str, grounding: Fields, count: int | None) -> None:
    assert billed(over(wire, CALL, model, groundingMetadata=grounding), "web_searches") == (count,)


def test_searches_are_collected_over_the_pieces_of_an_answer() -> None:
    pieces: list[Fields] = [
        {"candidates": [{"content": {"parts": [{"text": text}]}, "groundingMetadata": {"webSearchQueries": queries}}]}
        for text, queries in (("a", ["x"]), ("b", ["x", "y"]))
    ]
    last = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": CALL, "modelVersion": "gemini-3-pro-preview"}
    got = assembled("gemini", [*pieces, last])
    assert billed(got, "web_searches", "input_tokens") == (2, 1_000)


def test_a_zero_behind_a_count_changes_nothing() -> None:
    first = {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": CALL}
    last = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {**CALL, "promptTokenCount": 0}}
    assert billed(assembled("gemini", [first, last]), "input_tokens", "output_tokens") == (1_000, 100)


@wires
def test_thoughts_that_are_counted_with_the_answer(wire: str) -> None:
    """llm-rosetta 0.13 does so; the total tells it."""
    counts = {"promptTokenCount": 100, "thoughtsTokenCount": 20, "totalTokenCount": 142}
    for spoken in (22, 42):
        total = over(wire, {**counts, "candidatesTokenCount": spoken}).agent_turns[0]["total_usage"]
        assert (total["output_tokens"], total["thinking_tokens"]) == (42, 20)
