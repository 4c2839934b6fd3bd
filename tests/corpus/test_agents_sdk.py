"""Recorded Agents SDK streams against the UI messages that a careful client makes of them."""

import json
from pathlib import Path

import pytest

from pipeline.dialects import DIALECTS
from tests.support.assembled import assembled
from topics.thread_rules import check
from turnmill.wire.framing import decode

STREAMS = sorted((Path(__file__).parent / "agents-sdk").glob("*.sse"))


def said(messages):
    """The parts of the assistant's messages in order, and beside them the sources."""
    parts = [part for m in messages if m["role"] == "assistant" for part in m["parts"] if part["type"] != "step-start"]
    sources = [(p["sourceId"], p["url"], p.get("title")) for p in parts if p["type"] == "source-url"]
    return [found for found in map(_part, parts) if found], sources


def _part(part):
    if part["type"] == "text":
        return part["text"]
    if not part["type"].startswith(("tool-", "dynamic-tool")) or part["state"] == "input-streaming":
        return None
    name = part.get("toolName") or part["type"].removeprefix("tool-")
    return name, part["toolCallId"], part.get("input"), part["state"], part.get("output"), part.get("errorText")


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_stream_is_what_a_careful_client_makes_of_it(path):
    truth = json.loads(path.with_name(f"{path.stem}.uimessages.recommended.json").read_text(encoding="utf-8"))
    items = decode(path.read_bytes(), DIALECTS["agents-sdk"].wire)
    got = assembled("agents-sdk", [item.event for item in items if item.event is not None], ts=0)
    complete = bool(truth["done"]) and truth["done"]["finishReason"] != "error"
    assert got.agent_turns[-1]["completion_status"] == ("complete" if complete else "interrupted")
    assert said(got.export("vercel-ai")) == said(truth["messages"])
    assert not check(got.document)
