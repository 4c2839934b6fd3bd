"""Streams that no dialect reads are refused by their name. The events are those of the named package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.dialects.recognition import UnknownWire, recognise

MASTRA = {"runId": "r", "from": "AGENT"}
STREAMS: dict[str, list[Any]] = {
    "Gemini CLI's stream-json": [  # @google/gemini-cli 0.61.0
        {"type": "init", "timestamp": "2026-11-27T15:29:53.376Z", "session_id": "s", "model": "gemini-2.5-flash"},
        {"type": "message", "timestamp": "2026-11-27T15:29:53.377Z", "role": "user", "content": "Say hello"},
        {"type": "message", "timestamp": "2026-11-27T15:29:53.4Z", "role": "assistant", "content": "Hi", "delta": True},
        {"type": "result", "timestamp": "2026-11-27T15:29:54.052Z", "status": "success", "stats": {}},
    ],
    "Mastra's fullStream": [  # @mastra/core, November 2026
        {"type": "start", **MASTRA, "payload": {"id": "a"}},
        {"type": "text-start", **MASTRA, "payload": {"id": "t"}},
        {"type": "text-delta", **MASTRA, "payload": {"id": "t", "text": "Let me"}},
        {"type": "tool-call", **MASTRA, "payload": {"toolCallId": "c", "toolName": "weather"}},
        {"type": "finish", **MASTRA, "payload": {"stepResult": {"reason": "stop"}}},
    ],
    "the JavaScript SDK of OpenAI's agents": [  # @openai/agents, November 2026
        {"type": "raw_model_stream_event", "data": {"type": "output_text_delta", "delta": "Let me"}},
        {"type": "run_item_stream_event", "name": "tool_called", "item": {"rawItem": {"type": "function_call"}}},
        {"type": "run_item_stream_event", "name": "tool_output", "item": {"rawItem": {}}},
    ],
    "A2A": [  # a2a-sdk 1.3.0
        {"jsonrpc": "2.0", "id": 1, "result": {"statusUpdate": {"taskId": "t", "status": {}}}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x"}},
    ],
    "the Agent Client Protocol": [  # agent-client-protocol 0.12.1
        {"jsonrpc": "2.0", "method": "session/update", "params": {"update": {"sessionUpdate": "tool_call"}}},
        {"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "x"}},
    ],
    "Strands Agents": [{"init_event_loop": True}, {"event": {"messageStart": {"role": "assistant"}}}],  # 1.62.0
    "`opencode run --format json`": [  # opencode-ai 1.18.33
        {"type": "text", "timestamp": 1, "sessionID": "s", "part": {"type": "text", "text": "I look."}},
        {"type": "error", "timestamp": 1, "sessionID": "s", "error": {"name": "UnknownError", "data": {}}},
    ],
    "`codex exec --json`": [  # @openai/codex 0.171.0
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Hi"}},
    ],
    "Dify": [{"event": "message", "task_id": "t", "message_id": "m", "answer": "Hi"}],
    "OpenAI's agent sessions": [{"type": "agent.session.turn.output_text.delta", "delta": "Hi"}],
    "Anthropic's managed agents": [{"type": "agent.message", "id": "e", "content": [], "processed_at": "t"}],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("form", ["{}\n", "data: {}\n\n"], ids=["lines", "sse"])
def test_it_is_refused_by_name(name: str, form: str) -> None:
    stream = "".join(form.replace("{}", json.dumps(event)) for event in STREAMS[name])
    with pytest.raises(UnknownWire, match="which no dialect reads") as caught:
        recognise(stream.encode())
    assert f"it is {name}, which" in str(caught.value)


REFUSED = {"type": "turnmill.error", "status": 401, "body": {"error": {"message": "Incorrect API key"}}}


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        ({"model": "m", "input": "hello"}, "openai-responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}, "gemini"),
        ({"model": "m", "messages": [{"role": "user", "content": "hello"}]}, "anthropic"),
    ],
)
def test_a_refusal_alone_is_of_the_wire_of_its_request(body: Any, wire: str) -> None:
    found = recognise(json.dumps(REFUSED).encode(), body)
    assert found is not None
    assert found.name == wire
    for other in (None, "hello", {"model": "m"}):
        with pytest.raises(UnknownWire) as caught:
            recognise(json.dumps(REFUSED).encode(), other)
        assert set(caught.value.could_be) == {"anthropic", "gemini", "openai-responses"}
