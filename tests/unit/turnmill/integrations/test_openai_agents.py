"""The tracing processor, with spans as the Agents SDK's; the SDK itself: tests/sdks/check_recording.py."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

import turnmill
from tests.unit.turnmill.integrations.conftest import Heard

Runs = Callable[[], list[Heard]]
Fields = dict[str, Any]

CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
ASKED = {"role": "user", "content": "Rain?"}
GAVE = {"type": "function_call_output", "call_id": "c1", "output": "7 °C"}
USAGE = {"requests": 1, "input_tokens": 3, "output_tokens": 5}


def said(text: str) -> Fields:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


class Response:
    def __init__(self, number: int, *output: Fields) -> None:
        self._fields = {"id": f"resp_{number}", "model": "m", "status": "completed", "output": list(output)}

    def model_dump(self, **_: Any) -> Fields:
        return self._fields


class Program:
    """Tells a processor what a program does."""

    def __init__(self, **named: Any) -> None:
        self.processor = turnmill.openai_agents_processor(**named)
        self._ids = count(1)
        self._stack: list[str | None] = [None]

    @contextmanager
    def trace(self, name: str, group: str | None = None, metadata: Any = None) -> Iterator[None]:
        self._trace = name
        trace = SimpleNamespace(trace_id=name, group_id=group, metadata=metadata, name="Agent workflow")
        self.processor.on_trace_start(trace)
        yield
        self.processor.on_trace_end(trace)

    @contextmanager
    def span(self, kind: str, error: Any = None, **data: Any) -> Iterator[None]:
        fields = {"type": kind, "input": None, "output": None, "usage": None, "response": None, "model": "m", **data}
        span = SimpleNamespace(
            trace_id=self._trace,
            span_id=f"{self._trace}-{next(self._ids)}",
            parent_id=self._stack[-1],
            span_data=SimpleNamespace(**fields),
            error=error,
        )
        self.processor.on_span_start(span)
        self._stack.append(span.span_id)
        yield
        self._stack.pop()
        self.processor.on_span_end(span)

    def did(self, kind: str, **data: Any) -> None:
        with self.span(kind, **data):
            pass


def test_a_run_over_responses(heard: Runs) -> None:
    """With a hand-off; an agent in a tool is none of the conversation."""
    program = Program(tenant="acme")
    with program.trace("trace_1", "chat-1"), program.span("task", name="Agent workflow"):
        with program.span("agent", name="front"):
            transfer = {**CALL, "call_id": "c0", "name": "transfer_to_weather", "arguments": "{}"}
            program.did("response", input=[ASKED], response=Response(1, transfer))
            program.did("handoff", from_agent="front", to_agent="weather")
        with program.span("agent", name="weather"):
            moved = {"type": "function_call_output", "call_id": "c0", "output": '{"assistant": "weather"}'}
            program.did("response", input=[ASKED, transfer, moved], response=Response(2, CALL))
            with (
                program.span("function", name="weather", input=CALL["arguments"], output={"degrees": 7}),
                program.span("task", name="inner"),
                program.span("agent", name="inner"),
            ):
                program.did("response", input=[ASKED], response=Response(9, said("inner")))
            history = [ASKED, transfer, moved, CALL, {**GAVE, "output": "{'degrees': 7}"}]
            program.did("response", input=history, response=Response(3, said("No rain.")))
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.first["tenant"], run.end) == ("chat-1", "front", "acme", "complete")
    assert run.said() == [
        [("user-prompt", "Rain?")],
        [("tool-call", {})],
        [("tool-return", '{"assistant": "weather"}')],
        [("tool-call", {"city": "Paris"})],
        [("tool-return", "{'degrees': 7}")],
        [("text", "No rain.")],
    ]
    turn = run.turns()[1]
    assert [m["event_data"] for m in turn["messages"] if m.get("event_type") == "handoff"]
    assert run.first["run_id"] == "trace_1-1"


def test_runs_over_chat_completions(heard: Runs) -> None:
    """Two of them in one trace; the last result of a tool that ends its run is in no prompt."""
    program = Program(agent_id="w-1")
    with program.trace("trace_1", metadata={"session_id": 5}):
        with program.span("task", name="a"), program.span("agent", name="weather"):
            thought = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CHAT_CALL]}
            program.did("generation", input=[ASKED], output=[thought], usage=USAGE)
            program.did("function", name="weather", input=CALL["arguments"], output="7 °C")
            asked = [ASKED, thought, {"role": "tool", "tool_call_id": "c1", "content": "7 °C"}]
            program.did("generation", input=asked, output=[{"role": "assistant", "content": "No rain."}], usage=USAGE)
        with program.span("task", name="b"), program.span("agent", name="weather"):
            streamed = {"id": "__fake_id__", "object": "response", "output": [CALL]}
            program.did("generation", input=[{**ASKED, "content": "Snow?"}], output=[streamed], usage=USAGE)
            program.did("function", name="weather", input=CALL["arguments"], output=["snow"])
    first, second = heard()
    assert (first.thread, second.thread, first.first["agent_id"]) == ("5", "5", "w-1")
    assert first.said() == [
        [("user-prompt", "Rain?")],
        [("thinking", "Hm."), ("tool-call", {"city": "Paris"})],
        [("tool-return", "7 °C")],
        [("text", "No rain.")],
    ]
    assert second.said() == [
        [("user-prompt", "Snow?")],
        [("tool-call", {"city": "Paris"})],
        [("tool-return", "['snow']")],
    ]
    tokens = [message["usage"]["output_tokens"] for message in first.turns()[1]["messages"] if "usage" in message]
    assert tokens == [5, 5]


def test_how_runs_end_that_fail(heard: Runs) -> None:
    """In their first call, where over Responses nothing says what was asked; behind it; and when they are cancelled."""
    program = Program(thread_id="chat-1")
    error = {"message": "Error in agent run", "data": {"error": "no such model"}}
    with program.trace("first"), program.span("task", name="t"), program.span("agent", error, name="weather"):
        program.did("response", error={"message": "Error getting response"})
    many = {"message": "Max turns exceeded", "data": None}
    with program.trace("later"), program.span("task", name="t"), program.span("agent", many, name="weather"):
        program.did("response", input="Rain?", response=Response(1, said("Hm.")))
    with program.trace("cancelled"), program.span("task", name="t"), program.span("agent", name="weather"):
        program.did("generation", input=[ASKED])
    first, later, cancelled = heard()
    assert [run.end for run in (first, later, cancelled)] == ["error", "error", "aborted"]
    assert {run.thread for run in (first, later, cancelled)} == {"chat-1"}
    assert first.turns()[-1]["messages"][0]["event_data"] == {"message": "no such model"}
    user, agent = later.turns()
    assert (user["parts"][0]["content"], agent["completion_status"]) == ("Rain?", "interrupted")
    assert agent["messages"][-1]["event_data"] == {"message": "Max turns exceeded"}
    assert cancelled.turns()[0]["parts"][0]["content"] == "Rain?"


def test_releases_that_mark_no_run_and_traces_that_leave_out_what_is_said(heard: Runs) -> None:
    program = Program()
    with program.trace("trace_1"), program.span("agent", name="weather"):
        program.did("response", input=[ASKED], response=Response(1, said("No rain.")))
    with program.trace("trace_2"), program.span("task", name="t"), program.span("agent", name="weather"):
        program.did("response")
        program.did("generation", usage=USAGE)
    (run,) = heard()
    assert (run.thread, run.first["run_id"], run.end) == ("trace_1", "trace_1", "complete")
    assert run.said() == [[("user-prompt", "Rain?")], [("text", "No rain.")]]


def test_of_a_long_input_only_what_is_new_is_told(heard: Runs) -> None:
    program = Program()
    long = [{"role": "user", "content": "x" * 300_000}, {"role": "assistant", "content": "y"}]
    with program.trace("trace_1"):
        for asked in ([*long, ASKED], long[:1]):
            with program.span("task", name="t"), program.span("agent", name="weather"):
                program.did("response", input=asked, response=Response(1, said("No rain.")))
    short, none = heard()
    assert short.first["run"]["request"] == {"input": [long[1], ASKED]}
    assert none.first["run"]["request"] == {"input": None}


def test_what_fails_here_is_not_the_programs(heard: Runs, caplog: pytest.LogCaptureFixture) -> None:
    processor = turnmill.openai_agents_processor()
    with caplog.at_level(logging.ERROR):
        processor.on_trace_start(None)
        processor.on_span_start(None)
        processor.on_span_end(None)
        processor.on_trace_end(None)
    processor.force_flush()
    processor.shutdown()
    assert caplog.text.count("not published as a whole") == 4
    assert heard() == []
