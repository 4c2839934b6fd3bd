"""Why a model stopped: the words of each provider -> the `finish_reason` of ThreadProtocol.

A word that its table lacks is an error, as for a careful reader (pi-ai), and never `stop`: the response keeps it by
its name. `stop` also stands for words after which the parts of the response show whether it called tools.
"""

from collections.abc import Mapping
from typing import Any, Final

from topics.json_text import Fields

# openai 3.57, ChatCompletionChunk; `error`: OpenRouter and Mistral (pydantic-ai 2.68).
CHAT: Final = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
# anthropic 2.14, BetaStopReason; OpenAI's words come from translators of streams. After a pause the answer goes on.
ANTHROPIC: Final = {
    **CHAT,
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "content_filtered": "content_filter",  # Bedrock (botocore 1.44), as the next
    "guardrail_intervened": "content_filter",
}
# google-genai 3.6.1, FinishReason and BlockedReason. After CONTINUATION the same answer goes on.
GEMINI: Final = {
    "STOP": "stop",
    "CONTINUATION": "stop",
    "FINISH_REASON_UNSPECIFIED": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK"),
        "content_filter",
    ),
    **dict.fromkeys(
        ("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION", "PUP_LIMITED_DISABLED"),
        "content_filter",
    ),
}
# Chat Completions of other servers, and gateways that pass on the words of the provider that they ask.
SERVERS: Final = {
    "end": "stop",  # pi-ai 1.6
    "eos": "stop",  # Together (litellm 1.110)
    "eos_token": "stop",  # Hugging Face (pydantic-ai 2.68)
    "model_length": "length",  # Mistral (pydantic-ai 2.68)
    "complete": "stop",  # Cohere (litellm 1.110)
    "tool_call": "tool_call",
    "error_toxic": "content_filter",
}
ALL: Final = {
    word.lower(): reason
    for words in ({**GEMINI, "CONTINUATION": "length", "FINISH_REASON_UNSPECIFIED": "error"}, ANTHROPIC, SERVERS, CHAT)
    for word, reason in words.items()
}
# langchain-openai 1.7.4 has the `status` of a Response there.
LANGCHAIN: Final = {**ALL, "completed": "stop", "incomplete": "length"}
# ai 7.0.173, FinishReason. None: known to its SDK, and no reason that ThreadProtocol has.
AI_SDK: Final = {
    "stop": "stop",
    "length": "length",
    "content-filter": "content_filter",
    "tool-calls": "tool_call",
    "error": "error",
    "other": None,
    "unknown": None,
    "interrupted": None,
}
# openai 3.57, IncompleteDetails. After a steered answer its successor follows.
RESPONSES: Final = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content_filter",
    "steered": None,
}


def finish(words: Mapping[str, str | None], reason: str) -> str | None:
    """Return the finish reason that a word means."""
    return words.get(reason, "error")


def over_chat(reason: str) -> str | None:
    """Return the finish reason that a word of Chat Completions means: of any provider, in any case of letters."""
    return ALL.get(reason.lower(), "error")


def tell(fields: Fields, words: Mapping[str, str | None], reason: Any) -> None:
    """Set a response's finish reason, unless its parts tell it better."""
    if isinstance(reason, str) and (told := finish(words, reason)) not in ("stop", "tool_call"):
        fields["finish_reason"] = told
