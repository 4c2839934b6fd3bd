"""Threads that came over other wires, as pi histories."""

from pathlib import Path

import pytest

from pipeline.dialects import DIALECTS
from tests.support.assembled import assembled
from turnmill.wire.framing import decode

HERE = Path(__file__).parent
STREAMS = [
    *(("vercel-ai", path) for path in sorted((HERE / "vercel-ai").glob("*.sse"))),
    *(("pydantic-ai", path) for path in sorted((HERE / "pydantic-ai").glob("*/*.pai_events.jsonl"))),
    *(("agents-sdk", path) for path in sorted((HERE / "agents-sdk").glob("*.sse"))),
]
BLOCKS = {"user": {"text", "image"}, "assistant": {"text", "thinking", "toolCall"}, "toolResult": {"text", "image"}}
TEXTS = ("text", "thinking", "id", "name", "data", "mimeType", "textSignature", "thinkingSignature")
TOKENS = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")


@pytest.mark.parametrize(("dialect", "path"), STREAMS, ids=lambda value: getattr(value, "stem", value))
def test_a_thread_is_a_pi_history(dialect, path):
    items = decode(path.read_bytes(), DIALECTS[dialect].wire)
    got = assembled(dialect, [item.event for item in items if item.event is not None])
    calls: set[str] = set()
    for message in got.export("pi-agent"):
        assert message["timestamp"] > 0
        if message["role"] not in BLOCKS:  # an application's own
            continue
        assert {block["type"] for block in message["content"]} <= BLOCKS[message["role"]]
        assert all(isinstance(block[key], str) for block in message["content"] for key in TEXTS if key in block)
        if message["role"] == "assistant":
            calls |= {block["id"] for block in message["content"] if block["type"] == "toolCall"}
            assert message["stopReason"] in ("stop", "length", "toolUse", "error")
            assert all(message["usage"][name] >= 0 for name in TOKENS)
        elif message["role"] == "toolResult":
            assert isinstance(message["isError"], bool)
            assert message["toolCallId"] in calls or continues(got)


def continues(got):
    """Whether the run goes on with calls of an earlier one."""
    return got.agent_turns[0]["messages"][0]["message_type"] == "request"
