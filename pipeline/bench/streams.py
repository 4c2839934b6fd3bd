"""One agent run's stream in each wire protocol: an answer of so many text deltas, and what its SDK sends around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

Event = dict[str, Any]
Stream = Callable[[Sequence[str]], list[Event]]


def vercel_ai(deltas: Sequence[str]) -> list[Event]:
    """AI SDK, UI message stream."""
    return [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t1"},
        *({"type": "text-delta", "id": "t1", "delta": delta} for delta in deltas),
        {"type": "text-end", "id": "t1"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def pydantic_ai(deltas: Sequence[str]) -> list[Event]:
    """Pydantic AI, run_stream_events."""
    whole = {"part_kind": "text", "content": "".join(deltas)}
    return [
        {"event_kind": "part_start", "index": 0, "part": {"part_kind": "text", "content": ""}},
        *(
            {"event_kind": "part_delta", "index": 0, "delta": {"part_delta_kind": "text", "content_delta": delta}}
            for delta in deltas
        ),
        {"event_kind": "part_end", "index": 0, "part": whole},
    ]


def agents_sdk(deltas: Sequence[str]) -> list[Event]:
    """Agents SDK, named events."""
    return [
        {"event": "message.start", "data": {"messageId": "m1", "role": "assistant"}},
        *({"event": "message.delta", "data": {"messageId": "m1", "delta": delta}} for delta in deltas),
        {"event": "message.end", "data": {"messageId": "m1"}},
        {"event": "done", "data": {"finishReason": "stop", "usage": {"inputTokens": 12, "outputTokens": len(deltas)}}},
    ]


def pi_proxy(deltas: Sequence[str]) -> list[Event]:
    """pi, proxy stream."""
    return [
        {"type": "start"},
        {"type": "text_start", "contentIndex": 0},
        *({"type": "text_delta", "contentIndex": 0, "delta": delta} for delta in deltas),
        {"type": "text_end", "contentIndex": 0},
        {"type": "done", "reason": "stop", "usage": {"input": 12, "output": len(deltas)}},
    ]


def pi_agent(deltas: Sequence[str]) -> list[Event]:
    """pi, agent events."""
    said = {"role": "assistant", "content": [{"type": "text", "text": "".join(deltas)}], "stopReason": "stop"}
    begun = {**said, "content": []}
    return [
        {"type": "agent_start"},
        {"type": "message_start", "message": begun},
        *(
            {
                "type": "message_update",
                "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": delta},
            }
            for delta in deltas
        ),
        {"type": "message_end", "message": said},
        {"type": "agent_end", "messages": [said]},
    ]


def tool_results(results: Sequence[str]) -> list[Event]:
    """AI SDK, UI message stream: a tool call for each result, and a closing word."""
    events: list[Event] = [{"type": "start"}]
    for number, result in enumerate(results):
        call = {"toolCallId": f"call-{number}"}
        events += [
            {"type": "start-step"},
            {"type": "tool-input-start", **call, "toolName": "search"},
            {"type": "tool-input-available", **call, "toolName": "search", "input": {"query": f"topic {number}"}},
            {"type": "tool-output-available", **call, "output": {"text": result}},
            {"type": "finish-step"},
        ]
    return [*events, *vercel_ai(["Found ", "it."])[1:]]


STREAMS: Final[dict[str, Stream]] = {
    "vercel-ai": vercel_ai,
    "pydantic-ai": pydantic_ai,
    "agents-sdk": agents_sdk,
    "pi-proxy": pi_proxy,
    "pi-agent": pi_agent,
}
