"""Objects of SDKs, known by their shape."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from pipeline.errors import InvalidRecord
from threadmill.sdk_objects import openai_agents_event, pydantic_ai_event


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


@pytest.mark.parametrize("usage", [{"input_tokens": 3}, lambda: {"input_tokens": 3}])
def test_the_result_holds_the_messages_of_its_run_only(usage: Any) -> None:
    message = {"kind": "response", "parts": []}
    output = SimpleNamespace(a=1)
    result = SimpleNamespace(usage=usage, new_messages_json=lambda: json.dumps([message]), run_id="r", output=output)
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


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(InvalidRecord, match="PartDelta can't be written as JSON"):
        pydantic_ai_event(PartDelta(0, object()))  # type: ignore[arg-type]
    assert pydantic_ai_event(7) == 7  # for the reader of events to refuse
