"""Programs that nobody changed, before the gateway's proxy: they see what the provider says, and the thread holds it.

SDKs for Node, Claude Code, Codex and curl, against a scripted upstream. Part of `make test-sdks`; no broker is needed,
since what can't be sent is in the spool.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
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
    chat_call,
    chat_chunks,
    gemini_events,
    message_call,
    message_events,
    playing,
    response_call,
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


AI_SDK = ("ai-responses", "ai-chat", "ai-messages")
CALLS = {"/chat/completions": chat_call, "/responses": response_call, "/v1/messages": message_call}
CITIES = ("Paris", "Rome")


async def in_steps(asked: Asked, answer: Answering) -> None:
    """Ask for the weather of one city after the other, then answer."""
    path = asked.line.split()[1]
    answered = asked.body.decode().count("It is sunny in ")
    if answered == len(CITIES):
        await speaks(asked, answer)
        return
    city = CITIES[answered]
    call = next(call for end, call in CALLS.items() if path.endswith(end))
    await answer.stream(*call(f"call_{city}", "weather", json.dumps({"city": city})), done=path.endswith("completions"))


@pytest.mark.parametrize("sdk", AI_SDK)
async def test_the_ai_sdk_hears_the_provider(tmp_path: Path, sdk: str) -> None:
    done = await speak(tmp_path, sdk, "stream")
    assert done.json == {"text": ANSWER}
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn)) == ("complete", ANSWER)


@pytest.mark.parametrize("sdk", AI_SDK)
async def test_steps_of_the_ai_sdk_are_runs_of_one_conversation(tmp_path: Path, sdk: str) -> None:
    done = await speak(tmp_path, sdk, "steps", in_steps)
    steps = done.json["steps"]
    assert (done.json["text"], len(steps)) == (ANSWER, len(CITIES) + 1)
    turns, first = done.turns(), [record for record in spooled(done.settings) if "run" in record]
    assert len({record["thread_id"] for record in first}) == 1
    assert [record["run"].get("continues") for record in first] == [None, *(record["run_id"] for record in first[:-1])]
    assert [turn["completion_status"] for turn in turns] == ["complete"] * len(steps)
    for number, (turn, step) in enumerate(zip(turns, steps, strict=True)):
        parts = [part for message in turn["messages"] for part in message.get("parts", ())]
        called = [part for part in parts if part["part_kind"] == "tool-call"]
        assert [[part["tool_name"], part["tool_call_id"], part["args"]] for part in called] == step["calls"]
        given = [[part["tool_call_id"], part["content"]] for part in parts if part["part_kind"] == "tool-return"]
        assert given == (steps[number - 1]["results"] if number else [])
        assert said(turn) == step["text"]
        if sdk != "ai-chat":  # its stream names no tokens, unless it is asked to
            used = turn["total_usage"]
            assert [used["input_tokens"], used["output_tokens"]] == step["tokens"]


@pytest.mark.parametrize(("sdk", "status"), [("ai-responses", 429), ("ai-chat", 500), ("ai-messages", 500)])
async def test_the_ai_sdk_hears_what_the_provider_refuses(tmp_path: Path, sdk: str, status: int) -> None:
    async def refuses(_: Asked, answer: Answering) -> None:
        await answer.whole({"type": "error", "error": {"type": "overloaded", "message": "not now"}}, status)

    done = await speak(tmp_path, sdk, "stream", refuses)
    assert (done.json["status"], "not now" in done.json["problem"]) == (status, True)
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"
    assert "not now" in json.dumps(turn["messages"])


@pytest.mark.parametrize("sdk", AI_SDK)
async def test_an_answer_to_the_ai_sdk_that_breaks_off(tmp_path: Path, sdk: str) -> None:
    first = {
        "ai-responses": response_events("It")[:4],
        "ai-chat": chat_chunks("It")[:1],
        "ai-messages": message_events("It")[:3],
    }

    async def breaks(_: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        for event in first[sdk]:
            await answer.chunk(f"data: {json.dumps(event)}\n\n".encode())
        await asyncio.sleep(0.2)
        answer.reset()

    done = await speak(tmp_path, sdk, "stream", breaks)
    assert "problem" in done.json
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"
    assert "It" in json.dumps([turn["messages"], turn.get("meta:partial")])


async def test_another_attempt_of_the_ai_sdk_is_the_same_run(tmp_path: Path) -> None:
    attempts = []

    async def first_refuses(asked: Asked, answer: Answering) -> None:
        attempts.append(asked)
        if len(attempts) == 1:
            await answer.whole({"error": {"message": "not now"}}, 429, retry_after="0")
        else:
            await answer.whole(chat_answer(ANSWER))

    done = await speak(tmp_path, "ai-chat", "again", first_refuses)
    assert done.json == {"text": ANSWER}
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn)) == ("complete", ANSWER)
    assert "not now" in json.dumps(turn["messages"])


async def test_the_ai_sdk_that_is_told_to_stop_stops_the_provider(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def goes_on(asked: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        await answer.chunk(f"data: {json.dumps(chat_chunks('It')[0])}\n\n".encode())
        await asyncio.wait_for(asked.gone.wait(), WITHIN)
        gone.set()

    done = await speak(tmp_path, "ai-chat", "abort", goes_on)
    assert done.json == {"text": "It"}
    assert gone.is_set()
    (turn,) = done.turns()
    assert turn["interruption"]["reason"] == "user_cancelled"


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


def codex() -> Path:
    home = clients() / "node_modules" / "@openai"
    return next(path for path in home.glob("codex-*/vendor/**/codex") if path.is_file())


async def test_codex_speaks_through_the_proxy(tmp_path: Path) -> None:
    async with proxy(tmp_path, speaks) as (url, settings):
        provider = f'{{name="proxy",base_url="{url}/proxy/openai/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        out = await run(
            tmp_path,
            url,
            codex(),
            "exec",
            "--skip-git-repo-check",
            *("-c", 'model_provider="proxy"', "-c", f"model_providers.proxy={provider}", "-c", 'model="gpt-5"'),
            "What's the weather?",
        )
    done = Done(out, settings)
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns()]


async def test_what_codex_sends_compressed_is_read(tmp_path: Path) -> None:
    """It does so for who has logged in with ChatGPT."""
    encodings = []

    async def noted(asked: Asked, answer: Answering) -> None:
        encodings.append(asked.headers.get("content-encoding"))
        await speaks(asked, answer)

    log_in(tmp_path / ".codex")
    async with proxy(tmp_path, noted) as (url, settings):
        provider = f'{{name="OpenAI",base_url="{url}/proxy/openai/v1",requires_openai_auth=true,wire_api="responses"}}'
        out = await run(
            tmp_path,
            url,
            codex(),
            "exec",
            "--skip-git-repo-check",
            *("--enable", "enable_request_compression", "-c", 'model_provider="proxy"', "-c", 'model="gpt-5"'),
            *("-c", f"model_providers.proxy={provider}"),
            "What's the weather?",
            OPENAI_API_KEY="",
            HTTPS_PROXY="http://127.0.0.1:9",  # it asks ChatGPT's own servers for news
            NO_PROXY="127.0.0.1",
        )
    assert ANSWER in out
    assert encodings[-1] == "zstd"
    (first, *_) = spooled(settings)
    assert "What's the weather?" in json.dumps(first["events"][0])
    assert ANSWER in [said(turn) for turn in Done(out, settings).turns()]


def log_in(home: Path) -> None:
    """As Codex keeps a login with ChatGPT; its tokens are nobody's."""
    account = {"chatgpt_plan_type": "pro", "chatgpt_account_id": "account", "chatgpt_user_id": "user"}
    claims = {"email": "a@example.com", "exp": 4_102_444_800, "https://api.openai.com/auth": account}
    parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims, {}))
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    tokens = {"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account"}
    login = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": datetime.now(UTC).isoformat()}
    home.mkdir()
    (home / "auth.json").write_text(json.dumps(login))


async def test_curl_speaks_through_the_proxy(tmp_path: Path) -> None:
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Weather?"}]})
    async with proxy(tmp_path, speaks) as (url, settings):
        path = f"{url}/proxy/openai/v1/chat/completions"
        head = ("-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json")
        out = await run(tmp_path, url, "curl", "-sN", path, *head, "-d", body)
    assert out.endswith("data: [DONE]\n\n")
    (turn,) = Done(out, settings).turns()
    assert said(turn) == ANSWER
