"""What real emitters export of one and the same run, each as recorded: the same words, calls and tokens of all of them.

Where an emitter's spans lack something, the case says what.
"""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.support.otel import events_in, records_of, said, threads_of, used
from topics.json_text import Fields

ASKED: Final = [("user", "Weather in Paris and Oslo?")]
CALLED: Final = [("text", "Let me check."), ("call", "get_weather", "Paris"), ("call", "get_weather", "Oslo")]
RESULTS: Final = [("result", "Paris: sunny"), ("result", "Oslo: sunny")]
ANSWERED: Final = [("text", "Both are sunny.")]
TURN: Final = [*ASKED, *CALLED, *RESULTS, *ANSWERED]
FAILED: Final = [*ASKED, *CALLED, *RESULTS]
ALL: Final = (60, 16, 18, 3)
FEWER: Final = {  # what an emitter does not tell: the cached tokens, the thoughts', or both; or any where it streamed
    "ai-sdk": (60, 16, 18, None),
    "openinference-agents": (60, None, 18, None),
    "openai-v2": (60, None, 18, None),
    "openai-v2-true": (60, None, 18, None),
    "litellm": (60, None, 18, None),
    "traceloop-langchain": (60, 16, 18, None),
}
WHOLE: Final = [
    *("pydantic-ai", "pydantic-ai-slow", "ai-sdk", "ai-sdk-legacy", "openinference-openai"),
    *("openinference-openai-responses", "openinference-agents", "openinference-agents-responses"),
    *("openinference-langchain", "openai-v2", "openai-v2-true", "genai-openai", "google-adk-capture"),
    *("google-adk-latest-stream", "google-adk-schema1", "agent-framework", "agent-framework-responses"),
    *("langsmith-otel", "litellm", "mastra", "traceloop-openai", "traceloop-langchain"),
]


def thread_of(case: str) -> list[Fields]:
    [turns] = threads_of(records_of(events_in(case))).values()
    return turns


def agents(turns: Sequence[Fields]) -> list[Fields]:
    return [turn for turn in turns if turn["turn_type"] == "agent"]


@pytest.mark.parametrize("case", WHOLE)
def test_one_thread_has_each_word_call_and_token_once(case: str) -> None:
    turns = thread_of(case)
    assert said(turns) == TURN
    assert used(turns) == FEWER.get(case, ALL)
    assert {turn["completion_status"] for turn in agents(turns)} == {"complete"}


@pytest.mark.parametrize("case", ["openinference-agents-stream", "genai-openai-stream"])
def test_usage_that_was_not_told_is_unknown(case: str) -> None:
    turns = thread_of(case)
    assert said(turns) == TURN
    assert used(turns) == (None, None, None, None)


@pytest.mark.parametrize("case", ["pydantic-ai-err", "ai-sdk-err", "genai-openai-err", "mastra-err"])
def test_a_call_that_failed_ends_its_turn(case: str) -> None:
    turns = thread_of(case)
    assert said(turns) == FAILED
    last = agents(turns)[-1]
    assert (last["completion_status"], last["interruption"]["reason"]) == ("interrupted", "error")
    assert "scripted failure" in last["interruption"]["detail"]
    assert used(turns)[::2] == (20, 10)
    kinds = [message["message_type"] for message in last["messages"]]
    assert kinds[-2:] == ["request", "system"], "the failure comes after the results"


@pytest.mark.parametrize(
    ("case", "partly"),
    [
        ("pydantic-ai-abort", "Let me"),
        ("openinference-openai-abort", "Let me"),
        ("google-adk-latest-abort", "Let me"),
        ("agent-framework-abort", "Let me"),
        ("ai-sdk-abort", None),  # its spans have no part of an answer that broke off
    ],
)
def test_an_answer_that_broke_off_is_kept_as_partial(case: str, partly: str | None) -> None:
    turns = thread_of(case)
    assert said(turns) == ASKED
    [turn] = agents(turns)
    assert turn["interruption"]["reason"] == "user_cancelled"
    shown = [
        part["content"] for message in turn.get("meta:partial", {}).get("messages", ()) for part in message["parts"]
    ]
    assert shown == ([] if partly is None else [partly])


def test_agents_that_tools_call_are_runs_of_the_same_thread() -> None:
    turns = thread_of("pydantic-ai-nested")
    outer, *inner = agents(turns)
    assert [turn["agent_id"] for turn in inner] == ["inner", "inner"]
    assert {turn["meta:parent"]["run_id"] for turn in inner} == {outer["meta:run_id"]}
    questions = [part["content"] for turn in turns if turn["turn_type"] == "user" for part in turn["parts"]]
    words, *pictures = questions[0]
    assert words == "Weather in Paris and Oslo?"
    assert [picture["kind"] for picture in pictures] == ["binary", "image-url"]
    assert sorted(questions[1:], reverse=True) == ["And Rome? Paris", "And Rome? Oslo"]
    assert used([outer]) == ALL


def test_a_picture_beneath_a_span_of_http() -> None:
    turns = thread_of("ai-sdk-image")
    [(_, words), answer] = said(turns)
    assert "And Rome?" in words
    assert "image/png" in words
    assert answer == ("text", "Rome is sunny too.")


@pytest.mark.parametrize("case", ["google-adk", "openai-v2-default"])
def test_calls_without_words_are_counted(case: str) -> None:
    turns = thread_of(case)
    assert used(turns)[::2] == (60, 18)
    assert [piece for piece in said(turns) if piece[0] != "call"] == []


def test_calls_whose_ids_differ_are_two_threads() -> None:
    threads = threads_of(records_of(events_in("traceloop-openai-responses")))
    assert [said(turns) for turns in threads.values()] == [[*ASKED, *CALLED], [*RESULTS, *ANSWERED]]


def test_the_system_prompt_and_the_tools_are_those_of_the_request() -> None:
    records = records_of(events_in("ai-sdk"), keep_requests=True)
    [body] = {name: body for record in records for name, body in record.get("requests", {}).items()}.values()
    assert (body["model"], body["system"]) == ("scripted", "You are a weather bot.")
    assert [tool["name"] for tool in body["tools"]] == ["get_weather"]
