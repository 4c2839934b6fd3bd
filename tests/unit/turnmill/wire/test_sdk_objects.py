"""Objects of SDKs, known by their shape."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from turnmill.errors import InvalidRecord
from turnmill.wire.sdk_objects import (
    LEFT_OUT,
    anthropic_event,
    claude_code_event,
    langgraph_event,
    model,
    openai_agents_event,
    openai_chat_event,
    openai_responses_event,
    pydantic_ai_event,
    strands_event,
)


@dataclass
class Delta:
    content_delta: str
    data: bytes = b"\xff"
    at: datetime = field(default_factory=lambda: datetime(2026, 1, 20, tzinfo=UTC))


@dataclass
class PartDelta:
    index: int
    delta: Delta
    event_kind: str = "part_delta"


class Chunk(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    type: str = "tool-input-start"
    tool_call_id: str
    provider_metadata: dict[str, Any] | None = None


def test_dicts_are_themselves() -> None:
    event = {"type": "x"}
    assert pydantic_ai_event(event) is event


def test_events_of_pydantic_ai() -> None:
    assert pydantic_ai_event(PartDelta(0, Delta("Hi"))) == {
        "index": 0,
        "delta": {"content_delta": "Hi", "data": "_w==", "at": "2026-01-20T00:00:00Z"},
        "event_kind": "part_delta",
    }


def test_chunks_of_its_adapters() -> None:
    assert pydantic_ai_event(Chunk(tool_call_id="c")) == {"type": "tool-input-start", "toolCallId": "c"}


class Used(dict[str, int]):
    """As Pydantic AI 2 has it: calling it, as its version 1 wants, is deprecated."""

    def __call__(self) -> "Used":
        raise DeprecationWarning("'usage' is a property, not a method")


class ResultOfVersion1(SimpleNamespace):
    def usage(self) -> dict[str, int]:
        return {"input_tokens": 3}


class ResultOfVersion2(SimpleNamespace):
    @property
    def usage(self) -> Used:
        return Used(input_tokens=3)


@pytest.mark.parametrize("version", [ResultOfVersion1, ResultOfVersion2])
def test_the_result_holds_the_messages_of_its_run_only(version: type[SimpleNamespace]) -> None:
    message = {"kind": "response", "parts": []}
    output = SimpleNamespace(a=1)
    result = version(new_messages_json=lambda: json.dumps([message]), run_id="r", output=output)
    event = pydantic_ai_event(SimpleNamespace(event_kind="agent_run_result", result=result))
    told = event["result"]
    assert event["event_kind"] == "agent_run_result"
    assert (told["messages"], told["new_message_index"], told["usage"]) == ([message], 0, {"input_tokens": 3})
    assert (told["run_id"], told["output"]) == ("r", repr(output))


class Told(BaseModel):
    type: str
    call_id: str
    status: str | None = None
    never_set: str | None = None


def test_events_of_openais_agents_sdk() -> None:
    """Nulls that the server wrote stay, and of agents only their names travel."""
    told, pilot = Told(type="function_call", call_id="c1", status=None), SimpleNamespace(name="Pilot", tools=[object()])
    sent = {"type": "function_call", "call_id": "c1", "status": None}
    raw = SimpleNamespace(type="raw_response_event", data=told)
    assert openai_agents_event(raw) == {"type": "raw_response_event", "data": sent}
    updated = SimpleNamespace(type="agent_updated_stream_event", new_agent=pilot)
    assert openai_agents_event(updated)["new_agent"] == {"name": "Pilot"}
    item = SimpleNamespace(
        type="tool_call_output_item", raw_item={"call_id": "c1", "output": "x"}, agent=pilot, output={1}
    )
    event = openai_agents_event(SimpleNamespace(type="run_item_stream_event", name="tool_output", item=item))
    assert event["item"] == {
        "type": "tool_call_output_item",
        "raw_item": {"call_id": "c1", "output": "x"},
        "agent": {"name": "Pilot"},
        "output": [1],
    }
    with pytest.raises(InvalidRecord, match="can't be written as JSON"):
        openai_agents_event(SimpleNamespace(type="agent_updated_stream_event", new_agent=None))
    assert openai_agents_event(7) == 7  # for the reader of events to refuse


class Delta2(BaseModel):
    type: str = "response.output_text.delta"
    delta: str
    snapshot: str


class Wrong(BaseModel):
    text: str


def test_events_of_openais_helper_are_those_of_its_server() -> None:
    delta = {"type": "response.output_text.delta", "delta": "b"}
    assert openai_responses_event(Delta2(delta="b", snapshot="ab")) == delta
    chunk = Told(type="chat.completion.chunk", call_id="c")
    assert openai_chat_event(SimpleNamespace(type="chunk", chunk=chunk, snapshot=object())) == model(chunk)
    for kind in ("content.delta", "refusal.done", "tool_calls.function.arguments.delta", "logprobs.content.delta"):
        assert openai_chat_event(SimpleNamespace(type=kind, snapshot=object())) is LEFT_OUT
    assert openai_chat_event(Told(type="of.a.server", call_id="c")) == {"type": "of.a.server", "call_id": "c"}


def test_events_of_anthropics_helper_are_those_of_its_server() -> None:
    for kind in ("text", "thinking", "signature", "input_json", "citation"):
        assert anthropic_event(SimpleNamespace(type=kind, snapshot="so far")) is LEFT_OUT
    assert anthropic_event(Told(type="ping", call_id="c")) == {"type": "ping", "call_id": "c"}


@pytest.mark.filterwarnings("error")
def test_what_an_sdk_has_built_without_validation_brings_no_warnings() -> None:
    assert model(Wrong.model_construct(text=7)) == {"text": 7}


def test_what_langgraph_streams_may_hold_messages() -> None:
    message = Told(type="ai", call_id="c")
    spelled = message.model_dump()
    assert langgraph_event(("messages", (message, {"step": 1, "made_by": repr}))) == [
        "messages",
        [spelled, {"step": 1, "made_by": repr(repr)}],
    ]
    assert langgraph_event({"model": {"messages": [message]}}) == {"model": {"messages": [spelled]}}
    bare = {"text": "\ud83d", "number": 2**70, "at": datetime(2026, 1, 20, tzinfo=UTC)}
    assert langgraph_event(bare) == {**bare, "at": "2026-01-20T00:00:00Z"}
    deep: dict[str, Any] = {}
    for _ in range(1020):
        deep = {"a": deep}
    assert langgraph_event(deep) is deep
    with pytest.raises(InvalidRecord, match="tuple can't be written as JSON"):
        langgraph_event((Told.model_construct(type=object()),))  # type: ignore[call-arg]


@dataclass
class TextBlock:
    text: str


@dataclass
class ToolResultBlock:
    tool_use_id: str
    content: Any = None
    is_error: bool | None = None


@dataclass
class AssistantMessage:
    content: list[Any]
    model: str
    message_id: str | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    parent_tool_use_id: str | None = None
    uuid: str | None = None


@dataclass
class UserMessage:
    content: Any
    parent_tool_use_id: str | None = None


@dataclass
class Asked:
    id: str


@dataclass
class ResultMessage:
    subtype: str
    is_error: bool
    model_usage: dict[str, Any] | None = None
    deferred_tool_use: Asked | None = None


@dataclass
class TaskStartedMessage:
    subtype: str
    data: dict[str, Any]


@dataclass
class RateLimitInfo:
    status: str
    raw: dict[str, Any]


@dataclass
class RateLimitEvent:
    rate_limit_info: RateLimitInfo
    uuid: str


@dataclass
class StreamEvent:
    event: dict[str, Any]
    parent_tool_use_id: str | None = None


def test_messages_of_the_claude_agent_sdk_are_the_lines_they_were_read_from() -> None:
    of_main = {"parent_tool_use_id": None}
    said = AssistantMessage([TextBlock("Hi")], "m", "msg_1", usage={"input_tokens": 1}, uuid="u")
    blocks = [{"type": "text", "text": "Hi"}]
    told = {"id": "msg_1", "role": "assistant", "model": "m", "type": "message", "content": blocks}
    assert claude_code_event(said) == {
        "type": "assistant",
        "message": {**told, "usage": {"input_tokens": 1}},
        **of_main,
        "uuid": "u",
    }
    result = {"type": "tool_result", "tool_use_id": "c", "content": "7 °C"}
    assert claude_code_event(UserMessage([ToolResultBlock("c", "7 °C")])) == {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        **of_main,
    }
    assert claude_code_event(UserMessage("Hi", "toolu_1"))["parent_tool_use_id"] == "toolu_1"
    assert claude_code_event(ResultMessage("success", is_error=False, model_usage={"m": {}})) == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "modelUsage": {"m": {}},
    }
    asked = claude_code_event(ResultMessage("success", is_error=False, deferred_tool_use=Asked("c")))
    assert asked["deferred_tool_use"] == {"id": "c"}
    line = {"type": "system", "subtype": "task_started", "task_id": "t"}
    assert claude_code_event(TaskStartedMessage("task_started", line)) is line
    limits = {"rate_limit_info": {"resetsAt": 1}, "uuid": "u"}
    assert claude_code_event(RateLimitEvent(RateLimitInfo("ok", {"resetsAt": 1}), "u")) == {
        "type": "rate_limit_event",
        **limits,
    }
    event = {"type": "message_stop"}
    assert claude_code_event(StreamEvent(event)) == {"type": "stream_event", "event": event, **of_main}


def test_a_block_that_nobody_knows_is_said() -> None:
    with pytest.raises(InvalidRecord, match="AssistantMessage can't be written as JSON"):
        claude_code_event(AssistantMessage([Asked("c")], "m"))
    assert claude_code_event(7) == 7  # for the reader of events to refuse


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(InvalidRecord, match="PartDelta can't be written as JSON"):
        pydantic_ai_event(PartDelta(0, object()))  # type: ignore[arg-type]
    assert pydantic_ai_event(7) == 7  # for the reader of events to refuse


class AgentResult:
    def to_dict(self) -> dict[str, Any]:
        return {"type": "agent_result", "stop_reason": "end_turn"}


def test_events_of_strands_come_without_copies_and_without_the_callers_objects() -> None:
    agent = object()
    text = {"data": "Hi", "delta": {"text": "Hi"}, "agent": agent}
    assert strands_event(text) is LEFT_OUT
    assert strands_event({"type": "multiagent_node_stream", "node_id": "a", "event": text}) is LEFT_OUT
    assert strands_event({"type": "tool_stream", "tool_stream_event": {"tool_use": {}, "data": text}}) is LEFT_OUT
    begun = {"init_event_loop": True, "agent": agent}
    assert strands_event(begun) == {"init_event_loop": True}
    assert strands_event({"type": "multiagent_node_stream", "node_id": "a", "event": begun})["event"] == {
        "init_event_loop": True
    }
    assert strands_event({"result": AgentResult()}) == {"result": {"type": "agent_result", "stop_reason": "end_turn"}}
    sealed = {"event": {"contentBlockDelta": {"delta": {"reasoningContent": {"redactedContent": b"\xff"}}}}}
    assert strands_event(sealed)["event"]["contentBlockDelta"]["delta"]["reasoningContent"]["redactedContent"] == "/w=="
    assert strands_event({"message": {"content": [{"text": "Hi"}]}}) == {"message": {"content": [{"text": "Hi"}]}}
    assert strands_event(7) == 7  # for the reader of events to refuse
    deep: dict[str, Any] = {}
    deep["event"] = deep
    with pytest.raises(InvalidRecord, match="dict can't be written as JSON"):
        strands_event(deep)
