"""Usage as each API tells it, with every count that the types of its SDKs know, and all counts different.

Programs that run inside an environment with some SDK import this, too.
"""

from typing import Any, Final

READ, WRITTEN = 1_000, 300  # tokens in and out, with all their kinds
CACHED, KEPT, KEPT_LONG, THOUGHTS = 400, 150, 100, 80
AUDIO_READ, AUDIO_CACHED, AUDIO_WRITTEN, PICTURES_READ = 50, 10, 20, 60
SEARCHES: Final = 2
TOOLS_READ: Final = 25  # what Gemini reads of its own tools, beside the prompt

CACHE_CREATION = {"ephemeral_1h_input_tokens": KEPT_LONG, "ephemeral_5m_input_tokens": KEPT - KEPT_LONG}
MESSAGES = {
    "input_tokens": READ - CACHED - KEPT,
    "cache_read_input_tokens": CACHED,
    "cache_creation_input_tokens": KEPT,
    "output_tokens": WRITTEN,
}
EVERY: Final[dict[str, dict[str, Any]]] = {
    "/chat/completions": {
        "prompt_tokens": READ,
        "completion_tokens": WRITTEN,
        "total_tokens": READ + WRITTEN,
        "prompt_tokens_details": {
            "audio_tokens": AUDIO_READ,
            "cached_tokens": CACHED,
            "cache_write_tokens": KEPT,
            "image_tokens": PICTURES_READ,
            "text_tokens": READ - AUDIO_READ - PICTURES_READ,
        },
        "completion_tokens_details": {
            "accepted_prediction_tokens": 5,
            "audio_tokens": AUDIO_WRITTEN,
            "reasoning_tokens": THOUGHTS,
            "rejected_prediction_tokens": 3,
            "text_tokens": WRITTEN - AUDIO_WRITTEN - THOUGHTS,
        },
    },
    "/responses": {
        "input_tokens": READ,
        "input_tokens_details": {
            "cached_tokens": CACHED,
            "cache_write_tokens": KEPT,
            "cache_write_tokens_details": {"ttl_12h_tokens": KEPT_LONG, "ttl_30m_tokens": KEPT - KEPT_LONG},
        },
        "output_tokens": WRITTEN,
        "output_tokens_details": {"reasoning_tokens": THOUGHTS},
        "total_tokens": READ + WRITTEN,
    },
    "/messages": {
        **MESSAGES,
        "cache_creation": CACHE_CREATION,
        "output_tokens_details": {"thinking_tokens": THOUGHTS},
        "server_tool_use": {"web_search_requests": SEARCHES, "web_fetch_requests": 1},
        "service_tier": "priority",
        "speed": "fast",
        "inference_geo": "us",
        "iterations": [{"type": "message", "model": "scripted-1", **MESSAGES, "cache_creation": CACHE_CREATION}],
    },
    ":streamGenerateContent": {
        "promptTokenCount": READ - TOOLS_READ,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": READ - TOOLS_READ - AUDIO_READ - PICTURES_READ},
            {"modality": "AUDIO", "tokenCount": AUDIO_READ},
            {"modality": "IMAGE", "tokenCount": PICTURES_READ},
        ],
        "cachedContentTokenCount": CACHED,
        "cacheTokensDetails": [
            {"modality": "TEXT", "tokenCount": CACHED - AUDIO_CACHED},
            {"modality": "AUDIO", "tokenCount": AUDIO_CACHED},
        ],
        "toolUsePromptTokenCount": TOOLS_READ,
        "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": TOOLS_READ}],
        "candidatesTokenCount": WRITTEN - THOUGHTS,
        "candidatesTokensDetails": [
            {"modality": "TEXT", "tokenCount": WRITTEN - THOUGHTS - AUDIO_WRITTEN},
            {"modality": "AUDIO", "tokenCount": AUDIO_WRITTEN},
        ],
        "thoughtsTokenCount": THOUGHTS,
        "totalTokenCount": READ + WRITTEN,
        "trafficType": "ON_DEMAND_PRIORITY",
    },
}


def names(usage: Any, above: str = "") -> set[str]:
    """Return the dotted names of all values in a usage object; those of a list are its entries'."""
    if isinstance(usage, list):
        return {name for entry in usage for name in names(entry, above)}
    if isinstance(usage, dict):
        return {name for key, value in usage.items() for name in names(value, f"{above}.{key}" if above else key)}
    return {above}
