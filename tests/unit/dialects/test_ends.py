"""Why models stopped: no wire takes an unknown word for a good end, and each keeps it by its name."""

from typing import Any, get_args

import pytest

from pipeline.dialects import ends
from pipeline.dialects.pydantic_ai.messages import message
from tests.support.assembled import Assembled, assembled
from tests.support.chat_chunks import DONE, chunk, run, status
from topics.thread import FinishReason

HALF = {"content": "Half an"}


@pytest.mark.parametrize(
    "words", [ends.CHAT, ends.ANTHROPIC, ends.GEMINI, ends.ALL, ends.LANGCHAIN, ends.AI_SDK, ends.RESPONSES]
)
def test_the_tables_have_reasons_of_threads(words: dict[str, Any]) -> None:
    assert set(words.values()) <= {*get_args(FinishReason), None}
    assert ends.finish(words, "brand_new") == "error"


@pytest.mark.parametrize(
    "reason",
    [
        *("network_error", "sensitive", "insufficient_system_resource", "repetition_truncation", "engine_overloaded"),
        *("overloaded_error", "malformed_function_call", "MALFORMED_FUNCTION_CALL", "error", "brand_new"),
    ],
)
def test_a_finish_reason_of_chat_that_means_failure(reason: str) -> None:
    """pi-ai 1.6 fails with "Provider finish_reason: network_error"; the words are those of Z.AI, DeepSeek, Moonshot."""
    usage = {**chunk(), "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}}
    got = run(chunk(HALF), chunk({}, reason), usage, DONE)
    assert (status(got), got.refused) == ("interrupted", [])
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 10
    interruption = got.agent_turns[0]["interruption"]
    assert interruption["reason"] == "error"
    assert interruption["detail"] == f"the server ended the answer with finish_reason {reason}"
    (partial,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for part in partial["parts"]] == ["Half an"]
    assert len(got.messages("system")) == 1


def test_an_error_in_a_chunk_that_has_an_unknown_reason_too_is_the_detail() -> None:
    got = run(chunk(HALF), chunk({}, "overloaded_error", error={"message": "Overloaded"}), DONE)
    assert got.agent_turns[0]["interruption"]["detail"] == "Overloaded"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        *[("max_tokens", "length"), ("MAX_TOKENS", "length"), ("model_length", "length"), ("SAFETY", "content_filter")],
        *[("refusal", "content_filter"), ("RECITATION", "content_filter"), ("end_turn", "stop"), ("STOP", "stop")],
        *[("COMPLETE", "stop"), ("eos", "stop"), ("end", "stop"), ("tool_use", "stop")],
    ],
)
def test_words_of_other_providers_over_chat(reason: str, kept: str) -> None:
    """Gateways pass them on, as Portkey 1.15 does where it is told not to be strict."""
    (response,) = run(chunk(HALF), chunk({}, reason), DONE).messages("response")
    assert response["finish_reason"] == kept
    assert response["meta:openai_chat"] == {"finish_reason": reason}


def test_an_answer_without_a_finish_reason_has_none() -> None:
    """Gateways end a stream that broke off like this; pi-ai 1.6 fails: "Stream ended without finish_reason"."""
    got = run(chunk(HALF), DONE)
    assert (status(got), [part["content"] for part in got.parts("response")]) == ("complete", ["Half an"])
    (response,) = got.messages("response")
    assert "finish_reason" not in response
    assert response["meta:openai_chat"] == {"ended_by": "[DONE]"}


def gemini(reason: str) -> Assembled:
    parts = {"role": "model", "parts": [{"text": "Half an"}]}
    return assembled("gemini", [{"candidates": [{"content": parts, "finishReason": reason}]}])


def langgraph(reason: str) -> Assembled:
    said = {"type": "ai", "id": "m1", "content": "Half an", "response_metadata": {"finish_reason": reason}}
    return assembled("langgraph", [{"event": "updates", "data": {"model": {"messages": [said]}}}], end="complete")


def responses(reason: str) -> Assembled:
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Half an"}]}
    body = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": reason}, "output": [item]}
    return assembled("openai-responses", [{"type": "response.incomplete", "response": body}])


def pi(reason: str) -> Assembled:
    said = {"role": "assistant", "content": [{"type": "text", "text": "Half an"}], "stopReason": reason}
    user = {"role": "user", "content": "Go on", "timestamp": 1}
    ended = [{"type": "message_end", "message": each} for each in (user, said)]
    return assembled("pi-agent", [{"type": "agent_start"}, *ended, {"type": "agent_end", "messages": [user, said]}])


@pytest.mark.parametrize("stream", [gemini, langgraph, responses, pi])
def test_an_unknown_word_is_an_error_that_keeps_its_name(stream: Any) -> None:
    got = stream("BRAND_NEW")
    (response,) = got.messages("response")
    assert response["finish_reason"] == "error"
    assert "BRAND_NEW" in str(response)


def test_a_steered_answer_of_responses_is_not_cut_by_its_length() -> None:
    """openai 3.57: it stopped at a safe boundary, and the successor answers the queued input."""
    (response,) = responses("steered").messages("response")
    assert "finish_reason" not in response
    assert "steered" in str(response)


@pytest.mark.parametrize("details", [None, {}, {"finish_reason": "network_error"}])
def test_a_word_that_pydantic_ai_does_not_know(details: Any) -> None:
    """Pydantic AI 2.68 has the reason None then, and the provider's word in the details."""
    raw = {"kind": "response", "parts": [{"part_kind": "text", "content": "Half an"}], "finish_reason": None}
    fields = message({**raw, "provider_details": details}).fields
    assert fields == ({"finish_reason": None} if details else {})


@pytest.mark.parametrize("dialect", ["bedrock", "strands"])
@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_what_bedrock_filters(dialect: str, reason: str) -> None:
    events: list[dict[str, Any]] = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "No."}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": reason}},
    ]
    got = assembled(dialect, [{"event": event} for event in events] if dialect == "strands" else events)
    assert [message["finish_reason"] for message in got.messages("response")] == ["content_filter"]
