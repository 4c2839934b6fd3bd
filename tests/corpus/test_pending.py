"""What recorded runs of real SDKs wait for at their end."""

from typing import Any

import pytest

from pipeline.turns.pending import MAX_ARGS_CHARACTERS, MAX_QUESTIONS, pending
from tests.corpus.compare_wires import FOLDER, events, recordings, thread
from tests.support.assembled import assembled

ASKED: dict[tuple[str, str], list[tuple[str, str | None, Any, str | None]]] = {
    ("ag-ui", "interrupt_out"): [("approval", "book_berth", {"item": "falcon beacon", "count": 10}, "Approve?")],
    ("ag-ui", "pai_client_tool"): [("result", "paint", {"colour": "red"}, None)],
    ("ag-ui", "tool_client_side_answered"): [],
    ("langgraph", "ask-sse-v3-run1"): [("input", "ask_user", {"question": "Which day?"}, '{"question":"Which day?"}')],
    ("langgraph", "ask-sse-v3-run2"): [],
    ("langgraph", "hitl-approve-tuples-run1"): [
        ("approval", "send_mail", {"to": "ann@example.org", "body": "Anchor lantern arrow …"}, "Tool execution")
    ],
    ("langgraph", "hitl-approve-tuples-run2"): [],
    ("openai-agents", "approval_stop"): [("result", "book_berth", {"n": 3}, None)],
    ("openai-agents", "approval_granted"): [],
    ("openai-responses", "gen_run_approval"): [],
    ("openai-responses", "gen_call_one"): [
        ("result", "weather", {"place": "Zürich", "days": [1, 2], "unit": None}, None)
    ],
    ("google-adk", "confirm-jsonl"): [("approval", "pays", {"amount": 900}, "Please approve or reject")],
    ("anthropic", "loop-tool"): [],
    ("mastra", "approval"): [("approval", "pay", {"sum": 3}, None)],
    ("mastra", "suspend"): [("result", "ask", {"q": "sure?"}, None)],
    ("mastra", "approval-granted"): [],
    ("openai-agents-js", "approval"): [("result", "pay", {"sum": 3}, None)],
    ("strands", "interrupt"): [("input", "book", {"port": "Brest"}, '{"port":"Brest"}')],
    ("strands", "interrupt-resumed"): [],
}


@pytest.mark.parametrize(("wire", "name"), ASKED, ids=lambda value: value)
def test_recorded_runs(wire: str, name: str) -> None:
    (recording,) = (one for one in recordings(wire) if one.stream.stem == name)
    document = thread(wire, recording.events(), {"end": "complete", **recording.info})
    found = pending(document["turns"][-1])
    assert [(one["kind"], one["tool_name"], one["args"]) for one in found] == [one[:3] for one in ASKED[wire, name]]
    for one, (*_, said) in zip(found, ASKED[wire, name], strict=True):
        assert (one["message"] or "").startswith(said or "")


def test_the_request_of_an_mcp_server_is_open_until_it_is_answered() -> None:
    said = events("openai-responses", (FOLDER / "openai-responses" / "gen_run_approval.sse").read_bytes())
    second = [n for n, event in enumerate(said) if event.get("type") == "turnmill.request"][1]
    (asked,) = pending(thread("openai-responses", said[:second], {"end": "complete"})["turns"][-1])
    assert (asked["kind"], asked["tool_name"], asked["args"]) == ("approval", "pay", {"sum": 3})
    assert asked["tool_call_id"].startswith("mcpr_")


@pytest.mark.parametrize("name", ["v6-approval-request", "v7-approval-request"])
def test_an_approval_of_the_ai_sdk(name: str) -> None:
    said = events("vercel-ai", (FOLDER.parent / "vercel-ai" / f"{name}.sse").read_bytes())
    (asked,) = pending(assembled("vercel-ai", said, end="complete").document["turns"][-1])
    assert (asked["kind"], asked["tool_name"], asked["tool_call_id"]) == ("approval", "weather", "c1")
    assert asked["args"] == {"city": "Paris"}


def test_an_automatic_approval_of_the_ai_sdk_waits_for_nobody() -> None:
    said = events("vercel-ai", (FOLDER.parent / "vercel-ai" / "v7-approval-automatic.sse").read_bytes())
    assert pending(assembled("vercel-ai", said, end="complete").document["turns"][-1]) == []


def turn(*calls: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    parts = [{"part_kind": "tool-call", "tool_name": "f", "tool_call_id": one, "args": args} for one, args in calls]
    base = {"turn_type": "agent", "completion_status": "complete"}
    return {**base, "messages": [{"message_type": "response", "parts": parts}], **fields}


def test_of_two_deferred_calls_the_one_without_a_result_is_open() -> None:
    """As Pydantic AI ends a run with `DeferredToolRequests`."""
    asked = turn(("a", {}), ("b", {"x": 1}))
    answer = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "a", "content": 1}
    asked["messages"].append({"message_type": "request", "parts": [answer]})
    assert [one["tool_call_id"] for one in pending(asked)] == ["b"]


def test_what_waits_for_nothing() -> None:
    assert pending(None) == []
    assert pending({"turn_type": "user", "parts": []}) == []
    assert pending(turn(("a", {}), completion_status="interrupted")) == []
    gone_on = turn(("a", {}))
    gone_on["messages"].append({"message_type": "response", "parts": [{"part_kind": "text", "content": "Never mind"}]})
    assert pending(gone_on) == []
    assert pending({"turn_type": "agent", "completion_status": "complete"}) == []


def test_what_is_large_is_left_out() -> None:
    asked = pending(turn(*((str(n), "x" * MAX_ARGS_CHARACTERS if n == 0 else n) for n in range(2 * MAX_QUESTIONS))))
    assert len(asked) == MAX_QUESTIONS
    assert (asked[0]["args"], asked[1]["args"]) == (None, 1)
