"""Programs that nobody changed, before the gateway's proxy: they see what the provider says, and the thread holds it.

SDKs for Node, Claude Code, Codex and curl, against a scripted upstream. Part of `make test-sdks`; no broker is needed,
since what can't be sent is in the spool.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.turns.thread_document import thread_document
from tests.support import npm
from tests.support.gateways import running
from tests.support.spools import away, spooled
from tests.support.upstream import (
    Answering,
    Asked,
    chat_answer,
    chat_chunks,
    gemini_events,
    message_events,
    playing,
    response_events,
)

KEY = "sk-of-the-provider-0123456789"
ANSWER = "It is sunny."
WITHIN = 120.0  # seconds of one program


@dataclass
class Done:
    """What a program printed, and what was published meanwhile."""

    out: str
    settings: Settings

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    def turns(self) -> list[dict[str, Any]]:
        """The agents' turns of all runs."""
        runs: dict[str, list[dict[str, Any]]] = {}
        for record in spooled(self.settings):
            runs.setdefault(record["run_id"], []).append(record)
        assert KEY not in json.dumps(runs)
        found = []
        for records in runs.values():
            turns, refused = assemble(DIALECTS[records[0]["dialect"]], records)
            assert refused == []
            document = thread_document(records[0]["thread_id"], turns)
            found += [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
        return found


async def speaks(asked: Asked, answer: Answering) -> None:
    """Answer as the API of the path does."""
    path = asked.line.split()[1].partition("?")[0]
    if asked.line.startswith("POST") and path.endswith("/chat/completions"):
        if asked.json.get("stream"):
            await answer.stream(*chat_chunks(ANSWER), done=True)
        else:
            await answer.whole(chat_answer(ANSWER))
    elif asked.line.startswith("POST") and path.endswith("/responses"):
        await answer.stream(*response_events(ANSWER))
    elif asked.line.startswith("POST") and path.endswith("/v1/messages"):
        await answer.stream(*message_events(ANSWER))
    elif path.endswith(":streamGenerateContent"):
        await answer.stream(*gemini_events(ANSWER))
    elif asked.line.startswith("HEAD"):
        await answer.head(size=0)
    else:
        await answer.whole({"data": [], "object": "list", "input_tokens": 1})


@asynccontextmanager
async def proxy(home: Path, play: Any) -> AsyncIterator[tuple[str, Settings]]:
    async with playing(play) as upstream:
        settings = away(home).model_copy(
            update={
                "gateway_port": 0,
                "gateway_proxy": ",".join(f"{name}={upstream.url}" for name in ("openai", "anthropic", "google")),
            }
        )
        async with running(settings) as gateway:
            yield gateway.url, settings


async def run(home: Path, url: str, *command: str | Path, **more: str) -> str:
    """A program with the addresses of the proxy, and a home of its own -> what it prints."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OPENAI_BASE_URL": f"{url}/proxy/openai/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": f"{url}/proxy/anthropic",
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": f"{url}/proxy/google",
        "GEMINI_API_KEY": KEY,
        **more,
    }
    process = await asyncio.create_subprocess_exec(
        *command, env=variables, cwd=home, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    try:
        out, problems = await asyncio.wait_for(process.communicate(), WITHIN)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, (out.decode(), problems.decode())
    return out.decode()


def clients() -> Path:
    return npm.installed(Path(__file__).with_name("clients"), "sdks/clients")


async def speak(home: Path, sdk: str, way: str, play: Any = speaks) -> Done:
    async with proxy(home, play) as (url, settings):
        out = await run(home, url, "node", clients() / "speak.mjs", sdk, way)
    return Done(out, settings)


def said(turn: dict[str, Any]) -> str:
    parts = [part for message in turn["messages"] for part in message.get("parts", ())]
    return "".join(part["content"] for part in parts if part["part_kind"] == "text")


@pytest.mark.parametrize(
    ("sdk", "way"), [("chat", "stream"), ("chat", "whole"), ("responses", ""), ("messages", ""), ("gemini", "")]
)
async def test_an_sdk_for_node_hears_the_provider(tmp_path: Path, sdk: str, way: str) -> None:
    done = await speak(tmp_path, sdk, way)
    assert done.json == {"text": ANSWER}
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn)) == ("complete", ANSWER)


@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("sdk", ["chat", "messages"])
async def test_an_sdk_for_node_hears_what_the_provider_refuses(tmp_path: Path, sdk: str, status: int) -> None:
    async def refuses(_: Asked, answer: Answering) -> None:
        await answer.whole({"type": "error", "error": {"type": "overloaded", "message": "not now"}}, status)

    done = await speak(tmp_path, sdk, "stream", refuses)
    assert (done.json["status"], "not now" in done.json["problem"]) == (status, True)
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"
    assert "not now" in json.dumps(turn["messages"])


async def test_an_sdk_that_is_told_to_stop_stops_the_provider(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def goes_on(asked: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        await answer.chunk(f"data: {json.dumps(chat_chunks('It')[0])}\n\n".encode())
        await asyncio.wait_for(asked.gone.wait(), WITHIN)
        gone.set()

    done = await speak(tmp_path, "chat", "abort", goes_on)
    assert done.json == {"text": "It"}
    assert gone.is_set()
    (turn,) = done.turns()
    assert turn["interruption"]["reason"] == "user_cancelled"


async def test_an_sdk_sees_an_answer_that_breaks_off_as_broken(tmp_path: Path) -> None:
    async def breaks(_: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        await answer.chunk(f"data: {json.dumps(chat_chunks('It')[0])}\n\n".encode())
        await asyncio.sleep(0.2)
        answer.reset()

    done = await speak(tmp_path, "chat", "stream", breaks)
    assert "problem" in done.json
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"


async def test_an_sdk_understands_a_problem_of_the_gateways_own(tmp_path: Path) -> None:
    async def hangs_up(_: Asked, answer: Answering) -> None:
        answer.reset()

    done = await speak(tmp_path, "chat", "stream", hangs_up)
    assert done.json["status"] == 502
    assert "closed the connection" in done.json["problem"]


async def test_claude_code_speaks_through_the_proxy(tmp_path: Path) -> None:
    program = next((clients() / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude"))
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    async with proxy(tmp_path, speaks) as (url, settings):
        out = await run(tmp_path, url, program, "-p", "What's the weather?", "--model", "claude-x", **quiet)
    done = Done(out, settings)
    assert ANSWER in done.out
    turns = [turn for turn in done.turns() if said(turn) == ANSWER]
    assert turns
    assert {turn["completion_status"] for turn in turns} == {"complete"}


async def test_codex_speaks_through_the_proxy(tmp_path: Path) -> None:
    home = clients() / "node_modules" / "@openai"
    program = next(path for path in home.glob("codex-*/vendor/**/codex") if path.is_file())
    async with proxy(tmp_path, speaks) as (url, settings):
        provider = f'{{name="proxy",base_url="{url}/proxy/openai/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        out = await run(
            tmp_path,
            url,
            program,
            "exec",
            "--skip-git-repo-check",
            *("-c", 'model_provider="proxy"', "-c", f"model_providers.proxy={provider}", "-c", 'model="gpt-5"'),
            "What's the weather?",
        )
    done = Done(out, settings)
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns()]


async def test_curl_speaks_through_the_proxy(tmp_path: Path) -> None:
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Weather?"}]})
    async with proxy(tmp_path, speaks) as (url, settings):
        path = f"{url}/proxy/openai/v1/chat/completions"
        head = ("-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json")
        out = await run(tmp_path, url, "curl", "-sN", path, *head, "-d", body)
    assert out.endswith("data: [DONE]\n\n")
    (turn,) = Done(out, settings).turns()
    assert said(turn) == ANSWER
