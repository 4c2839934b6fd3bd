"""What requests say of their conversation."""

from typing import Any

import pytest

from turnmill.capture.reading import RequestNames, request_names

SESSION = "0b9d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
CODEX = {"session_id": "s", "conversation_id": "c"}


@pytest.mark.parametrize(
    ("headers", "body", "thread"),
    [
        ({"turnmill-thread": "t", **CODEX}, {"conversation": "conv_1"}, "t"),
        (CODEX, {"conversation": "conv_1", "metadata": {"thread_id": "m"}}, "conv_1"),
        ({}, {"conversation": {"id": "conv_1"}}, "conv_1"),
        (CODEX, {"metadata": {"session_id": "s1", "conversation_id": "m"}}, "m"),
        ({}, {"metadata": {"user_id": f"user_1_account_2_session_{SESSION}"}}, SESSION),
        ({}, {"metadata": {"user_id": f'{{"device_id":"d","session_id":"{SESSION}"}}'}}, SESSION),
        ({}, {"metadata": {"user_id": "user_1"}}, None),
        ({}, {"metadata": {"user_id": "{broken"}}, None),
        (CODEX, {}, "c"),
        ({"x-session-id": "x"}, None, "x"),
        ({"x-session-id": "x" * 201}, [], None),
        ({}, {"metadata": {"thread_id": 3}, "conversation": 7, "user": "u"}, None),
    ],
)
def test_threads(headers: dict[str, str], body: Any, thread: str | None) -> None:
    assert request_names(headers, body).thread == thread


def test_the_rest() -> None:
    headers = {"turnmill-run": "r", "turnmill-agent": "a", "turnmill-parent": "t/p", "authorization": "x"}
    found = request_names(headers, {"previous_response_id": "resp_1"})
    assert found == RequestNames(run="r", agent="a", parent_run="p", parent_thread="t", response="resp_1")
    assert request_names({"turnmill-parent": "p"}, {}) == RequestNames(parent_run="p")
    assert request_names({}, {}) == RequestNames()
    assert request_names({}, {"previous_interaction_id": "int_1"}).response == "int_1"
    assert request_names({}, {"inputs": []}, "conv_1").response == "conv_1"


@pytest.mark.parametrize(
    ("body", "beside"),
    [
        ({"messages": [{"role": "user", "content": "[SUGGESTION MODE: what next?"}]}, True),
        ({"messages": [{"role": "user", "content": "Hi"}], "compaction": {"type": "summarize"}}, False),
    ],
)
def test_a_program_asks_beside_the_conversation(body: Any, beside: bool) -> None:  # noqa: FBT001  # pytest's
    assert request_names({}, body).beside is beside


def test_labels_are_in_headers_and_in_the_body() -> None:
    headers = {"turnmill-user": "ada", "turnmill-tags": "beta, eu"}
    named = request_names(headers, {"metadata": {"user_id": "bob", "environment": "test"}})
    assert named.labels == {"user": "ada", "tags": ["beta", "eu"], "environment": "test"}
