"""Programs before the gateway's proxy, with a scripted upstream behind it."""

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
from tests.sdks.recordings import by_run
from tests.support import npm
from tests.support.gateways import running
from tests.support.spools import away
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
        return dict(json.loads(self.out.splitlines()[-1]))  # SDKs print warnings before

    def turns(self) -> list[dict[str, Any]]:
        """The agents' turns of all runs."""
        runs = by_run(self.settings)
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
        events = response_events(ANSWER)
        if asked.headers.get("content-encoding") or asked.json.get("stream"):
            await answer.stream(*events)
        else:
            await answer.whole(events[-1]["response"])
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
        # The AI SDK's address of Anthropic has the version in it, that of Anthropic's own SDKs has not.
        more = {"ANTHROPIC_BASE_URL": f"{url}/proxy/anthropic/v1"} if sdk.startswith("ai-") else {}
        out = await run(home, url, "node", clients() / "speak.mjs", sdk, way, **more)
    return Done(out, settings)


def said(turn: dict[str, Any]) -> str:
    parts = [part for message in turn["messages"] for part in message.get("parts", ())]
    return "".join(part["content"] for part in parts if part["part_kind"] == "text")


def claude_code() -> Path:
    return next((clients() / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude"))


def codex() -> Path:
    home = clients() / "node_modules" / "@openai"
    return next(path for path in home.glob("codex-*/vendor/**/codex") if path.is_file())


def gemini() -> Path:
    return clients() / "node_modules" / ".bin" / "gemini"


def with_gemini(home: Path, url: str) -> dict[str, str]:
    """Write the settings of a user of Gemini CLI who has a model at this address, and return the variables."""
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({**auth, "model": {"name": "gemini-2.5-flash"}}))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}


def opencode() -> Path:
    program = clients() / "node_modules" / "opencode-linux-x64-baseline" / "bin" / "opencode"
    if not program.exists():  # npm leaves it out
        pytest.skip("opencode is fetched for Linux on x86-64 alone")
    return program


def with_opencode(url: str) -> dict[str, str]:
    """The variables of a user of opencode who has a model at this address, and lets it use all tools."""
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"gpt-5": {"name": "GPT"}}}
    models = {"model": "x/gpt-5", "small_model": "x/gpt-5", "provider": {"x": provider}}
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps({**models, "permission": "allow", "autoupdate": False}),
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
