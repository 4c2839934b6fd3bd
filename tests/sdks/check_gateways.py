"""Chat Completions by real gateways, which translate the streams of Anthropic and Google: what these say is read.

LiteLLM, as its proxy writes its chunks, and a server of Portkey. Part of `make test-sdks`.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import pytest

from pipeline.devbroker.ports import free_ports
from tests.sdks.python_sdks import HERE, run, server
from tests.support import npm
from tests.support.assembled import Assembled, assembled
from tests.support.upstream import Answering, Asked, playing
from turnmill.wire.framing import decode
from turnmill.wire.registry import WIRES

Fields = dict[str, Any]


def anthropic(stop: str, *blocks: tuple[Fields, list[Fields]]) -> list[Fields]:
    """A stream of Anthropic's: each block as it begins, and its deltas; an empty `stop` is an error."""
    counts = {"input_tokens": 100, "cache_read_input_tokens": 500, "cache_creation_input_tokens": 70}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    events: list[Fields] = [{"type": "message_start", "message": {**message, "usage": {**counts, "output_tokens": 1}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if not stop:
        return [*events, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]
    ended = {"stop_reason": stop, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 42}},
        {"type": "message_stop"},
    ]


def text(*pieces: str, **more: Any) -> tuple[Fields, list[Fields]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces] + [
        {"type": "citations_delta", "citation": cited} for cited in more.get("cited", ())
    ]


def thought(content: str, signature: str) -> tuple[Fields, list[Fields]]:
    pieces = [{"type": "thinking_delta", "thinking": piece} for piece in content.partition(" ")]
    sealed = {"type": "signature_delta", "signature": signature}
    return {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, sealed]


def call(identity: str, city: str) -> tuple[Fields, list[Fields]]:
    block = {"type": "tool_use", "id": identity, "name": "weather", "input": {}}
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city":', f'"{city}"}}')]


def google(reason: str, *parts: Fields) -> list[Fields]:
    """A stream of Google's, each part a chunk."""
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 42, "totalTokenCount": 142}
    chunks = [{"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = reason
    return [{**chunk, "modelVersion": "gemini", "usageMetadata": usage} for chunk in chunks]


@dataclass(frozen=True)
class Case:
    """What a provider says. `parts`: of the answer, as `said` has them; `reason`: why it ended, "" for an error."""

    events: list[Fields]
    parts: list[tuple[Any, ...]]
    reason: str = "stop"

    @property
    def provider(self) -> str:
        return "google" if "candidates" in self.events[0] else "anthropic"


HALF = [("text", "Half an")]
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
PAGE = {"type": "web_search_result", "url": "https://x.test/1", "title": "One", "encrypted_content": "e"}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}
CITED = {"type": "web_search_result_location", "url": "https://x.test/1", "title": "One", "cited_text": "It rains."}
REDACTED = ({"type": "redacted_thinking", "data": "sealed"}, [])
SIGNED = {"functionCall": {"name": "weather", "args": {"city": "Paris"}}, "thoughtSignature": "c2ln"}
CASES = {
    "thoughts": Case(
        anthropic("end_turn", thought("Think of it.", "sig"), REDACTED, text("Hel", "lo.")),
        [("thinking", "Think of it.", "sig"), ("thinking", "", "sealed"), ("text", "Hello.")],
    ),
    "tools": Case(
        anthropic("tool_use", text("Look."), call("toolu_1", "Paris"), call("toolu_2", "Rome")),
        [("text", "Look."), ("tool-call", {"city": "Paris"}), ("tool-call", {"city": "Rome"})],
        "tool_call",
    ),
    "search": Case(
        anthropic("end_turn", (SEARCH, []), (FOUND, []), text("It rains.", cited=[CITED])), [("text", "It rains.")]
    ),
    "cut short": Case(anthropic("max_tokens", text("Half an")), HALF, "length"),
    "refused": Case(anthropic("refusal", text("Half an")), HALF, "content_filter"),
    "broken off": Case(anthropic("", text("Half an")), HALF, ""),
    "Google's thoughts": Case(
        google("STOP", {"text": "Think.", "thought": True}, {"text": "Hello."}),
        [("thinking", "Think."), ("text", "Hello.")],
    ),
    "Google's tools": Case(google("STOP", SIGNED), [("tool-call", {"city": "Paris"}, "c2ln")], "tool_call"),
    "Google's limit": Case(google("MAX_TOKENS", {"text": "Half an"}), HALF, "length"),
    "Google's filter": Case(google("SAFETY", {"text": "Half an"}), HALF, "content_filter"),
}
MODELS = {"anthropic": "anthropic/claude-opus-4-5", "google": "gemini/gemini-3-flash-preview"}


async def speaks(asked: Asked, answer: Answering) -> None:
    """Answer as the case that the user's words name; Google's lines end as the web's do."""
    (case,) = [case for words, case in CASES.items() if json.dumps(words).encode() in asked.body]
    await answer.head(kind="text/event-stream")
    for event in case.events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        end = "\r\n\r\n" if case.provider == "google" else "\n\n"
        await answer.chunk(f"{name}data: {json.dumps(event)}{end}".encode())
    await answer.chunk(b"")


async def litellm() -> dict[str, list[Fields]]:
    async with playing(speaks) as provider:
        asked = json.dumps({words: MODELS[case.provider] for words, case in CASES.items()})
        heard = await asyncio.to_thread(run, "litellm", "litellm_program.py", provider.url, asked)
    return {words: [*chunks, {"event": None, "data": "[DONE]"}] for words, chunks in heard.items()}


async def portkey() -> dict[str, list[Fields]]:
    """In the mode that passes on thoughts, and the providers' own words."""
    home, (port,) = npm.installed(HERE / "gateways", "sdks/gateways"), free_ports(1)
    heard = {}
    async with playing(speaks) as provider, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        with server(["node", home / "portkey.mjs", f"--port={port}", "--headless"], port, {}):
            for words, case in CASES.items():
                version = "v1" if case.provider == "anthropic" else "v1beta"
                about = {"provider": case.provider, "custom-host": f"{provider.url}/{version}"}
                about["strict-open-ai-compliance"] = "false"
                answer = await http.post(
                    f"http://127.0.0.1:{port}/v1/chat/completions",
                    headers={f"x-portkey-{name}": value for name, value in about.items()}
                    | {"authorization": "Bearer k"},
                    json={
                        "model": "m",
                        "stream": True,
                        "max_tokens": 9,
                        "messages": [{"role": "user", "content": words}],
                    },
                )
                heard[words] = [i.event for i in decode(answer.content, WIRES["openai-chat"]) if i.event is not None]
    return heard


GATEWAYS: dict[str, Callable[[], Any]] = {"litellm": litellm, "portkey": portkey}


@cache
def heard(gateway: str) -> dict[str, list[Fields]]:
    return asyncio.run(GATEWAYS[gateway]())


def said(got: Assembled) -> list[tuple[Any, ...]]:
    """The parts of an answer, also of one that broke off, but those of the server's tools."""
    partial = got.agent_turns[-1].get("meta:partial", {}).get("messages", [])
    parts = [part for message in (*got.messages("response"), *partial) for part in message["parts"]]
    seals = [part.get("signature", part.get("meta:thought_signature")) for part in parts]
    told = [(p["part_kind"], p.get("content", p.get("args")), seal) for p, seal in zip(parts, seals, strict=True)]
    return [each if each[-1] else each[:-1] for each in told if not each[0].startswith("builtin")]


@pytest.mark.parametrize("words", CASES)
@pytest.mark.parametrize("gateway", GATEWAYS)
def test_what_a_provider_said_is_read(gateway: str, words: str) -> None:
    case = CASES[words]
    got = assembled("openai-chat", heard(gateway)[words], end="complete")
    assert (got.refused, said(got)) == ([], case.parts)
    (turn,) = got.agent_turns
    assert turn["completion_status"] == ("complete" if case.reason else "interrupted")
    if not case.reason:
        assert "verloaded" in turn["interruption"]["detail"]
        return
    (response,) = got.messages("response")
    assert response["finish_reason"] == case.reason
    counts = (670, 42, 500, 70) if case.provider == "anthropic" else (100, 42, 0, 0)
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert tuple(response["usage"].get(name, 0) for name in names) == counts


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_a_search_of_the_server_is_kept_with_its_sources(gateway: str) -> None:
    got = assembled("openai-chat", heard(gateway)["search"], end="complete")
    assert [message["event_data"]["url"] for message in got.messages("system")] == ["https://x.test/1"]
    (response,) = got.messages("response")
    assert "srvtoolu_1" in str(response)
    assert PAGE["title"] in str(response)
    if gateway == "litellm":
        kinds = [part["part_kind"] for part in response["parts"]]
        assert kinds == ["text", "builtin-tool-call", "builtin-tool-return"]


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_thoughts_and_their_signatures_go_back_to_the_gateway(gateway: str) -> None:
    (answer,) = assembled("openai-chat", heard(gateway)["thoughts"], end="complete").export("openai-chat")
    (called,) = assembled("openai-chat", heard(gateway)["Google's tools"], end="complete").export("openai-chat")
    blocks = answer["thinking_blocks" if gateway == "litellm" else "content_blocks"]
    assert blocks[0] == {"type": "thinking", "thinking": "Think of it.", "signature": "sig"}
    assert "c2ln" in str(called["tool_calls"])
