"""Providers' own usage: the forms that they document, in one page and many, as JSON lines and CSV, cut and damaged."""

import io
import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest

from pipeline.stores.usage.provider_exports import CHUNK, Billed, read_export
from turnmill.errors import CallerError

# The example of OpenAI's reference (developers.openai.com/api/docs/api-reference/usage), with a model and a key, and
# fields of openai 3.57's UsageCompletionsResponse.
COMPLETIONS: dict[str, Any] = {
    "object": "organization.usage.completions.result",
    "input_tokens": 1000,
    "output_tokens": 500,
    "input_cached_tokens": 800,
    "input_audio_tokens": 70,
    "input_cached_audio_tokens": 30,
    "num_model_requests": 5,
    "project_id": None,
    "user_id": None,
    "api_key_id": "key_abc",
    "model": "gpt-4o-mini-2024-07-18",
    "batch": None,
    "service_tier": "default",
}
OPENAI: dict[str, Any] = {
    "object": "page",
    "data": [{"object": "bucket", "start_time": 1730419200, "end_time": 1730505600, "results": [COMPLETIONS]}],
    "has_more": True,
    "next_page": 'page_\\]}"[{',
}
OPENAI_READ = Billed(
    day="2024-11-01",
    models=("gpt-4o-mini-2024-07-18",),
    key="key_abc",
    counts={
        "requests": 5,
        "input_tokens": 1000,
        "cache_read_tokens": 800,
        "output_tokens": 500,
        "input_audio_tokens": 100,  # openai 3.57: `input_audio_tokens` are the uncached ones
        "cache_audio_read_tokens": 30,
    },
)
# The example of platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages, with `group_by` all that it has.
ANTHROPIC: dict[str, Any] = {
    "data": [
        {
            "starting_at": "2025-08-01T00:00:00Z",
            "ending_at": "2025-08-02T00:00:00Z",
            "results": [
                {
                    "uncached_input_tokens": 1500,
                    "cache_creation": {"ephemeral_1h_input_tokens": 1000, "ephemeral_5m_input_tokens": 500},
                    "cache_read_input_tokens": 200,
                    "output_tokens": 500,
                    "server_tool_use": {"web_search_requests": 10},
                    "api_key_id": "apikey_1",
                    "workspace_id": "wrkspc_1",
                    "model": "claude-sonnet-4-20250514",
                    "service_tier": "priority",
                    "context_window": "0-200k",
                }
            ],
        }
    ],
    "has_more": False,
    "next_page": None,
}
ANTHROPIC_READ = Billed(
    day="2025-08-01",
    models=("claude-sonnet-4-20250514",),
    key="apikey_1",
    tier="priority",
    counts={
        "input_tokens": 3200,
        "cache_read_tokens": 200,
        "cache_write_tokens": 1500,
        "cache_write_1h_tokens": 1000,
        "output_tokens": 500,
        "web_searches": 10,
    },
)
# The example of openrouter.ai/docs/client-sdks/typescript/models/activityitem, as the API writes the names.
ACTIVITY: dict[str, Any] = {
    "date": "2025-08-24",
    "model": "openai/gpt-4.1",
    "model_permaslug": "openai/gpt-4.1-2025-04-14",
    "endpoint_id": "550e8400-e29b-41d4-a716-446655440000",
    "provider_name": "OpenAI",
    "usage": 0.015,
    "byok_usage_inference": 0.012,
    "requests": 5,
    "prompt_tokens": 50,
    "completion_tokens": 125,
    "reasoning_tokens": 25,
}
OPENROUTER_READ = Billed(
    day="2025-08-24",
    models=("openai/gpt-4.1", "openai/gpt-4.1-2025-04-14"),
    counts={
        "requests": 5,
        "input_tokens": 50,
        "output_tokens": 125,
        "thinking_tokens": 25,
        "cost_nano_usd": Decimal(27_000_000),
    },
)
EXAMPLES = {
    "openai": (OPENAI, OPENAI_READ),
    "anthropic": (ANTHROPIC, ANTHROPIC_READ),
    "openrouter": ({"data": [ACTIVITY]}, OPENROUTER_READ),
}


def read(provider: str, text: str) -> list[Billed]:
    return list(read_export(provider, io.StringIO(text)))


@pytest.mark.parametrize("provider", EXAMPLES)
def test_pages_in_any_order_of_lines(provider: str) -> None:
    page, expected = EXAMPLES[provider]
    once, indented = json.dumps(page), json.dumps(page, indent=2)
    bare = "\n".join(json.dumps(bucket) for bucket in page["data"])
    for text, count in (
        (once, 1),
        (indented, 1),
        (f"\n{once}\n{once}\n", 2),
        (f"{indented}{indented}", 2),
        (f"[{once}, {indented}]", 2),
        (bare, 1),
        (json.dumps(page["data"] * 3), 3),
        (json.dumps(dict(reversed(page.items()))), 1),
    ):
        assert read(provider, text) == [expected] * count, text


def test_kinds_of_results_of_openai() -> None:
    def read_as(**result: Any) -> Billed:
        [billed] = read("openai", json.dumps({"start_time": 1730419200, "results": [result]}))
        return billed

    searches = {"object": "organization.usage.web_searches.result", "num_requests": 3, "num_model_requests": 2}
    assert read_as(**searches, model="gpt-5").counts == {"web_searches": 3}
    cost = {"object": "organization.costs.result", "amount": {"value": 0.06, "currency": "usd"}}
    assert read_as(**cost, line_item=None) == Billed("2024-11-01", counts={"cost_nano_usd": Decimal(60_000_000)})
    assert read_as(**{**COMPLETIONS, "batch": True}).tier == "batch"
    assert read_as(**{**COMPLETIONS, "service_tier": "flex"}).tier == "flex"
    assert read_as(object="organization.usage.vector_stores.result", usage_bytes=5).counts == {}


def test_costs_of_anthropic_are_cents() -> None:
    item = {"amount": "123.45", "currency": "USD", "cost_type": "tokens", "model": "claude-opus-4-1"}
    [billed] = read("anthropic", json.dumps({"starting_at": "2025-08-01T00:00:00Z", "results": [item]}))
    assert billed.counts == {"cost_nano_usd": Decimal(1_234_500_000)}  # "123.45" is $1.2345


def test_days_are_those_of_utc() -> None:
    hour = {"starting_at": "2025-08-01T23:00:00-05:00", "results": []}
    assert read("anthropic", json.dumps(hour)) == [Billed("2025-08-02", empty=True)]


def test_csv() -> None:
    names = ",".join(ACTIVITY)
    values = ",".join(str(value) for value in ACTIVITY.values())
    assert read("openrouter", f"\n{names}\r\n{values}\r\n{values}\r\n") == [OPENROUTER_READ] * 2


def test_a_large_file_is_never_held() -> None:
    bucket = json.dumps(OPENAI["data"][0])
    count = 10 * CHUNK // len(bucket)

    class Endless(io.TextIOBase):
        """A page as it is read: far more than is ever in memory."""

        def __init__(self) -> None:
            self.left = count
            self.text = '{"object": "page", "data": ['

        def read(self, size: int | None = -1) -> str:
            assert size is not None
            while len(self.text) < size and self.left:
                self.left -= 1
                self.text += bucket + ("," if self.left else '], "has_more": false}')
            told, self.text = self.text[:size], self.text[size:]
            return told

        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]  # its declared parameter is positional
            return self.read(size)

    tracemalloc.start()
    assert sum(1 for _ in read_export("openai", Endless())) == count  # type: ignore[arg-type]  # a reader, and no file
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 9 * CHUNK


@pytest.mark.parametrize(
    ("provider", "text", "why"),
    [
        ("openai", json.dumps(OPENAI)[:-1], "cut off"),
        ("openai", json.dumps(OPENAI)[:150], "cut off"),
        ("openai", json.dumps(OPENAI) + "}", "damaged"),
        ("openai", json.dumps(ANTHROPIC), "start_time"),
        ("openai", json.dumps({"error": {"message": "Incorrect API key"}}), "none of"),
        ("anthropic", json.dumps(OPENAI), "it has no time in starting_at"),
        ("openrouter", json.dumps(ANTHROPIC), "none of"),
        ("openrouter", "<html><body>\n</body></html>", "none of"),
        ("openrouter", json.dumps({**ACTIVITY, "requests": "many"}), "no number"),
        ("openrouter", json.dumps({**ACTIVITY, "requests": -5}), "below 0"),
        ("openrouter", json.dumps({**ACTIVITY, "usage": True}), "no number"),
        ("openrouter", '{"date": "2025-08-24", "requests": 1e999999999}', "no number"),
        ("openrouter", "[1, 2]", "another form"),
        ("openrouter", "[" * 100_000, "cut off"),
        (
            "openai",
            json.dumps({"start_time": 1, "results": [{"amount": {"value": 1, "currency": "eur"}}]}),
            "not in US dollars",
        ),
    ],
)
def test_other_files(provider: str, text: str, why: str) -> None:
    with pytest.raises(CallerError, match=why) as caught:
        read(provider, text)
    assert f"this is no usage of {provider}" in str(caught.value)
    assert "expected: " in str(caught.value)
