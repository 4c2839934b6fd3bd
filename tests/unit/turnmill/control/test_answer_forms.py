"""Answers in each wire's own form, as its SDK documents it; only an explicit yes approves."""

from typing import Any

import pytest

from turnmill.control.answer_forms import FORMS, resumption
from turnmill.control.claims import Answer
from turnmill.errors import CallerError
from turnmill.wire.registry import WIRES

YES, NO = True, {"approved": False, "reason": "too dear"}


def answer(dialect: str, value: Any, kind: str = "approval", **asked: Any) -> Answer:
    question = {"id": "i1", "kind": kind, "tool_name": "pay", "tool_call_id": "c1", "args": {"sum": 3}, **asked}
    return Answer("q", "r", dialect, question, value, "ann", "command")


def test_every_wire_whose_runs_are_resumed_has_a_form() -> None:
    # They ask at their terminal, or their client in the stream; spans come when all is over.
    programs = {"acp", "codex", "gemini-cli", "opencode", "otel"}
    assert FORMS.keys() == WIRES.keys() - {"thread-protocol"} - programs


CASES: list[tuple[str, str, Any, Any]] = [
    ("a2a", "input", "Calais", {"role": "ROLE_USER", "parts": [{"text": "Calais"}]}),
    ("ag-ui", "input", "Paris", [{"interruptId": "i1", "status": "resolved", "payload": "Paris"}]),
    ("ag-ui", "input", None, [{"interruptId": "i1", "status": "cancelled"}]),
    ("openai-agents", "result", YES, {"c1": {"approve": True}}),
    ("mastra", "approval", NO, {"c1": {"approved": False}}),
    ("mastra", "result", {"a": "yes"}, {"c1": {"resumeData": {"a": "yes"}}}),
    ("openai-agents-js", "result", YES, {"c1": {"approve": True}}),
    ("openai-agents", "result", NO, {"c1": {"approve": False, "rejection_message": "too dear"}}),
    (
        "anthropic",
        "result",
        {"paid": 3},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"paid": 3}'}]},
    ),
    (
        "bedrock",
        "result",
        "paid",
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "paid"}]}}]},
    ),
    ("cohere", "result", 7, [{"role": "tool", "tool_call_id": "c1", "content": "7"}]),
    ("gemini-interactions", "result", 7, [{"type": "function_result", "call_id": "c1", "result": "7"}]),
    ("mistral", "result", 7, [{"type": "function.result", "tool_call_id": "c1", "result": "7"}]),
    ("ollama", "result", 7, [{"role": "tool", "tool_name": "pay", "content": "7"}]),
    ("openai-realtime", "result", 7, [{"type": "function_call_output", "call_id": "c1", "output": "7"}]),
    ("strands", "input", "yes", [{"interruptResponse": {"interruptId": "i1", "response": "yes"}}]),
    ("claude-code", "result", YES, {"c1": {"behavior": "allow", "updatedInput": {"sum": 3}}}),
    (
        "claude-code",
        "result",
        {"approved": True, "args": {"sum": 2}},
        {"c1": {"behavior": "allow", "updatedInput": {"sum": 2}}},
    ),
    ("claude-code", "result", NO, {"c1": {"behavior": "deny", "message": "too dear"}}),
    (
        "google-adk",
        "approval",
        YES,
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "adk_request_confirmation", "response": {"confirmed": True}}}
            ],
        },
    ),
    (
        "gemini",
        "result",
        7,
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "pay", "response": {"result": 7}}}]},
    ),
    ("langgraph", "input", "Paris", "Paris"),
    ("langgraph", "approval", YES, {"decisions": [{"type": "approve"}]}),
    ("langgraph", "approval", NO, {"decisions": [{"type": "reject", "message": "too dear"}]}),
    (
        "langgraph",
        "approval",
        {"approved": True, "args": {"sum": 2}},
        {"decisions": [{"type": "edit", "edited_action": {"name": "pay", "args": {"sum": 2}}}]},
    ),
    ("openai-chat", "result", "paid", [{"role": "tool", "tool_call_id": "c1", "content": "paid"}]),
    (
        "openai-responses",
        "approval",
        NO,
        [{"type": "mcp_approval_response", "approval_request_id": "c1", "approve": False, "reason": "too dear"}],
    ),
    ("openai-responses", "result", "paid", [{"type": "function_call_output", "call_id": "c1", "output": "paid"}]),
    (
        "pi-agent",
        "result",
        "paid",
        [
            {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "pay",
                "content": [{"type": "text", "text": "paid"}],
                "isError": False,
            }
        ],
    ),
    ("pydantic-ai", "result", YES, {"approvals": {"c1": {"kind": "tool-approved"}}, "calls": {}}),
    ("pydantic-ai", "approval", NO, {"approvals": {"c1": {"kind": "tool-denied", "message": "too dear"}}, "calls": {}}),
    ("pydantic-ai", "result", {"paid": 3}, {"approvals": {}, "calls": {"c1": {"paid": 3}}}),
    (
        "vercel-ai",
        "approval",
        NO,
        {
            "role": "tool",
            "content": [
                {"type": "tool-approval-response", "approvalId": "i1", "approved": False, "reason": "too dear"}
            ],
        },
    ),
    (
        "vercel-ai",
        "result",
        {"paid": 3},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "pay",
                    "output": {"type": "json", "value": {"paid": 3}},
                }
            ],
        },
    ),
]


@pytest.mark.parametrize(
    ("dialect", "kind", "value", "form"), CASES, ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)]
)
def test_the_form_of_a_wire(dialect: str, kind: str, value: Any, form: Any) -> None:
    assert resumption([answer(dialect, value, kind)]) == form


def test_langgraph_takes_several_interrupts_by_their_ids_and_actions_in_order() -> None:
    some = [answer("langgraph", one, id=f"i1#{n}") for n, one in enumerate((YES, NO))]
    both = [{"type": "approve"}, {"type": "reject", "message": "too dear"}]
    assert resumption(some) == {"decisions": both}
    other = answer("langgraph", "Paris", "input", id="i2")
    assert resumption([*some, other]) == {"i1": {"decisions": both}, "i2": "Paris"}


@pytest.mark.parametrize("value", ["yes", 1, "true", {"approved": "yes"}, None, [], {}])
def test_nothing_but_a_yes_approves(value: Any) -> None:
    part = resumption([answer("vercel-ai", value)])["content"][0]
    assert part["approved"] is False


def test_answers_of_several_wires_are_refused() -> None:
    with pytest.raises(CallerError, match="one wire"):
        resumption([answer("ag-ui", 1), answer("vercel-ai", 1)])
    with pytest.raises(CallerError, match="one wire"):
        resumption([])
