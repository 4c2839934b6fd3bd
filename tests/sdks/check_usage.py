"""Each count that the SDKs' types of usage name is counted, or said to be none of its own; runs that have them all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.stores.costs.prices import STREAM
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns.tokens import COST_SPELLINGS, COUNTS, SPELLINGS
from tests.sdks import node_sdks, python_sdks
from tests.sdks.check_recording import SDKS
from tests.sdks.every_count import EVERY, names
from tests.sdks.recordings import recorded
from tests.support.assembled import assembled
from topics.turn_record import TurnRecord

# What else a usage object has in the types of an SDK -> why it is no count of its own.
NO_COUNT = {
    **dict.fromkeys(
        ("prompt_tokens_details.text_tokens", "input_token_details.text_tokens"), "the input that is no other kind"
    ),
    **dict.fromkeys(
        ("completion_tokens_details.text_tokens", "output_token_details.text_tokens"),
        "the output that is no other kind",
    ),
    **dict.fromkeys(
        ("accepted_prediction_tokens", "rejected_prediction_tokens"), "a part of the output, at the price of output"
    ),
    "cached_tokens_details.text_tokens": "the cached input that is no other kind",
    "ephemeral_5m_input_tokens": "the cache writes that are not kept for an hour",
    "ttl_30m_tokens": "the cache writes that are not kept for twelve hours",
    "ttl_12h_tokens": "`cache_write_1h_tokens` in the tier `12h cache` (`pipeline.dialects.openai_responses.usage`)",
    "web_fetch_requests": "no price beside the tokens of what was fetched",
    **dict.fromkeys(("service_tier", "speed", "inference_geo", "trafficType"), "the tier, a condition of the price"),
    **dict.fromkeys(("fallback_credit", "iterations.type", "model", "provider"), "no number"),
    **dict.fromkeys(
        ("TokensDetails.modality", "TokensDetails.tokenCount"),
        "audio and pictures are counts, as the wire's folder reads them; other kinds cost what text does",
    ),
    "toolUsePromptTokenCount": "added to the input by the wire's folder",
    "unmeasured_requests": "calls that told nothing",
    "details": "the provider's names for what is counted above",
}
READ = {*COST_SPELLINGS, "requests", *(spelling for spellings in SPELLINGS.values() for spelling in spellings)}
ENTRIES = ("iterations.", "request_usage_entries.")  # a usage object for each call


def is_known(name: str) -> bool:
    """Whether a field is read, or stands in NO_COUNT with the end, the beginning or the whole of its name."""
    bare = next((name.removeprefix(entry) for entry in ENTRIES if name.startswith(entry)), name)
    if bare in READ:
        return True
    return any(known in (name, bare) or bare.endswith(known) or bare.startswith(f"{known}.") for known in NO_COUNT)


@pytest.mark.parametrize(
    "sdk", ["openai", "anthropic", "google-genai", "langgraph", "pydantic-ai-2.68.0", "openai-agents"]
)
def test_every_field_of_usage_is_counted_or_said_not_to_be(sdk: str) -> None:
    types = python_sdks.run(sdk, "usage_types.py")
    assert types
    assert all(names for names in types.values()), types
    unknown = {wire: [name for name in names if not is_known(name)] for wire, names in types.items()}
    assert not any(unknown.values()), unknown


# What a run tells whose usage has every count of its API; and which of them the SDK's types have.
CALL = {"input_tokens": 1_000, "output_tokens": 300, "total_tokens": 1_300, "cache_read_tokens": 400}
CALL |= {"thinking_tokens": 80, "tier": ""}
WRITTEN = {**CALL, "cache_write_tokens": 150}
LONG = {**WRITTEN, "cache_write_1h_tokens": 100}
AUDIO = {"input_audio_tokens": 50, "output_audio_tokens": 20}
CHAT = {**WRITTEN, **AUDIO, "input_image_tokens": 60}
RESPONSES = {**LONG, "tier": "12h cache"}
MESSAGES = {**LONG, "web_searches": 2, "tier": "priority fast us only"}
GEMINI = {**CALL, **AUDIO, "cache_audio_read_tokens": 10, "input_image_tokens": 60, "tier": "priority"}
CLAUDE_CODE = {**MESSAGES, "cost": 29_823_000}
LANGCHAIN = {**WRITTEN, **AUDIO}
TOLD = {
    "openai": {"raw chat": CHAT, "parsed chat": CHAT, "raw responses": RESPONSES, "parsed responses": RESPONSES},
    "anthropic": {"raw": MESSAGES, "parsed": MESSAGES},
    "google-genai": {"streamed": GEMINI},
    "google-adk": {"streamed": GEMINI, "whole": GEMINI},
    # Claude Code tells a cost, of its own prices for a model that it does not know.
    "claude-agent-sdk": dict.fromkeys(("whole", "partial", "query", "client"), CLAUDE_CODE),
    # LangChain's types have no pictures, and no audio of the Responses API, whose writes have one lifetime.
    "langgraph": {
        **dict.fromkeys(("messages and updates", "values", "subgraphs", "events"), LANGCHAIN),
        "over Responses": WRITTEN,
    },
    # Its usage has the types of the Responses API, also for Chat Completions.
    "openai-agents": {
        **dict.fromkeys(("responses", "traced Responses"), RESPONSES),
        **dict.fromkeys(("traced Responses, run", "traced Responses, run_sync"), RESPONSES),
        **dict.fromkeys(("chat", "traced Chat Completions"), WRITTEN),
        **dict.fromkeys(("traced Chat Completions, run", "traced Chat Completions, run_sync"), WRITTEN),
    },
    "pydantic-ai-2.68.0": {"chat": {**WRITTEN, **AUDIO}, "responses": WRITTEN, "ag-ui": WRITTEN},
}
RECORDERS = {**SDKS, "pydantic-ai-2.68.0": "pydantic_ai_usage.py"}
OF_NODE = {
    "ai-5": ("vercel-ai", CALL),
    "ai-6": ("vercel-ai", WRITTEN),
    "ai-7": ("vercel-ai", WRITTEN),
    "pi": (
        "pi-agent",
        {**{key: value for key, value in WRITTEN.items() if key != "thinking_tokens"}, "cost": 370_000_000},
    ),
}


def told(records: Sequence[TurnRecord]) -> dict[str, Any]:
    """The counts of a run's call, and its tier; and its cost, if the stream tells one."""
    (row,) = [row for record in records for row in usage_rows(record)]
    counts = {name: row[name] for name in COUNTS if row[name] is not None}
    cost = {"cost": row["cost_nano_usd"]} if row["price_source"] == STREAM else {}
    return {**counts, "tier": row["service_tier"], **cost}


@pytest.mark.parametrize("sdk", TOLD)
def test_every_count_that_an_sdk_tells_is_billed(sdk: str) -> None:
    runs = recorded(sdk, RECORDERS[sdk]).items()
    counted = {name.partition(":")[0]: found for name, found in runs if name.endswith(": every count")}
    got = {how: told(assemble(DIALECTS[truth["dialect"]], found)[0]) for how, (truth, found) in counted.items()}
    assert got == TOLD[sdk]


def test_every_count_that_an_sdk_of_javascript_tells_is_billed(tmp_path: Path) -> None:
    runs = node_sdks.run("usage.mjs", None, tmp_path)
    got = {sdk: (OF_NODE[sdk][0], told(assembled(OF_NODE[sdk][0], events).records)) for sdk, events in runs.items()}
    assert got == OF_NODE


def test_the_runs_have_every_count_that_the_types_know() -> None:
    apis = {"openai": ["/chat/completions", "/responses"], "anthropic": ["/messages"]}
    apis["google-genai"] = [":streamGenerateContent"]
    wires = {"/chat/completions": "openai-chat", "/responses": "openai-responses", "/messages": "anthropic-beta"}
    for sdk, paths in apis.items():
        types = python_sdks.run(sdk, "usage_types.py")
        for path in paths:
            known = {name for name in types[wires.get(path, "gemini")] if not name.startswith("fallback_credit.")}
            assert known == names(EVERY[path]), path
