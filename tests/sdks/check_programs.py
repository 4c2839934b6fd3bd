"""Programs that nobody changed under `turnmill run`, with no address of ours: their conversations are stored.

SDKs for Node, Claude Code, Codex and curl, against a scripted upstream. Part of `make test-sdks`; no broker is needed,
since what can't be sent is in the spool.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.settings import Settings
from tests.sdks.proxied import ANSWER, KEY, WITHIN, Done, claude_code, clients, codex, said, speaks
from tests.support.spools import away, spooled
from tests.support.upstream import Answering, Asked, chat_chunks, playing
from tests.support.workers import environment

RUN = (sys.executable, "-m", "turnmill", "run", "--")


@asynccontextmanager
async def started(
    home: Path, *command: str | Path, play: Any = speaks, **more: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Settings, str]]:
    """A program whose providers are a scripted upstream -> its process, its settings, the upstream's address."""
    settings = away(home / "turnmill")
    async with playing(play) as upstream:
        variables = {
            **environment(settings),
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "OPENAI_BASE_URL": f"{upstream.url}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": upstream.url,
            "ANTHROPIC_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": upstream.url,
            "GEMINI_API_KEY": KEY,
            "UPSTREAM": upstream.url,
            **{name: value.replace("UPSTREAM", upstream.url) for name, value in more.items()},
        }
        whole = [str(one).replace("UPSTREAM", upstream.url) for one in (*RUN, *command)]
        process = await asyncio.create_subprocess_exec(
            *whole, env=variables, cwd=home, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
        )
        try:
            yield process, settings, upstream.url
        finally:
            if process.returncode is None:
                process.kill()


async def ran(home: Path, *command: str | Path, **more: Any) -> tuple[Done, str]:
    """A program that ended well -> what it said, and what stood in its log."""
    async with started(home, *command, **more) as (process, settings, _):
        out, problems = await asyncio.wait_for(process.communicate(), WITHIN)
    assert process.returncode == 0, (out.decode(), problems.decode())
    return Done(out.decode(), settings), problems.decode()


@pytest.mark.parametrize(
    ("sdk", "way"),
    [
        ("chat", "stream"),
        ("chat", "whole"),
        *((sdk, "stream") for sdk in ("responses", "messages", "gemini", "ai-responses", "ai-chat", "ai-messages")),
    ],
)
async def test_an_sdk_for_node_is_heard(tmp_path: Path, sdk: str, way: str) -> None:
    more = {"ANTHROPIC_BASE_URL": "UPSTREAM/v1"} if sdk == "ai-messages" else {}
    done, problems = await ran(tmp_path, "node", clients() / "speak.mjs", sdk, way, **more)
    assert done.json == {"text": ANSWER}
    assert "no call" not in problems
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn), turn["agent_id"]) == ("complete", ANSWER, "speak")


@pytest.mark.parametrize("form", ["fetch(url, asked)", "fetch(new URL(url), asked)", "fetch(new Request(url, asked))"])
async def test_an_address_in_the_code_is_heard(tmp_path: Path, form: str) -> None:
    (tmp_path / "agent.mjs").write_text(f"""
const url = process.env.UPSTREAM + "/v1/chat/completions";
const messages = [{{ role: "user", content: "Weather?" }}];
const asked = {{ method: "POST", body: JSON.stringify({{ model: "gpt-5", stream: true, messages }}) }};
const answer = await {form};
console.log(JSON.stringify({{ same: answer.url === url, text: await answer.text() }}));
""")
    done, problems = await ran(tmp_path, "node", "agent.mjs")
    assert done.json["same"]
    assert "no call" not in problems
    assert done.json["text"].endswith("data: [DONE]\n\n")
    (turn,) = done.turns()
    assert said(turn) == ANSWER


async def test_a_program_that_breaks_off_stops_the_provider(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def goes_on(asked: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        await answer.chunk(f"data: {json.dumps(chat_chunks('It')[0])}\n\n".encode())
        await asyncio.wait_for(asked.gone.wait(), WITHIN)
        gone.set()

    done, _ = await ran(tmp_path, "node", clients() / "speak.mjs", "chat", "abort", play=goes_on)
    assert done.json == {"text": "It"}
    assert gone.is_set()
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"


async def test_claude_code_is_heard(tmp_path: Path) -> None:
    program = claude_code()
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    done, _ = await ran(tmp_path, program, "-p", "What's the weather?", "--model", "claude-x", **quiet)
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns()]


async def test_codex_is_heard(tmp_path: Path) -> None:
    (tmp_path / "codex").symlink_to(codex())
    done, _ = await ran(
        tmp_path, tmp_path / "codex", "exec", "--skip-git-repo-check", "-c", 'model="gpt-5"', "What's the weather?"
    )
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns()]


async def test_a_shell_and_what_it_starts_are_heard(tmp_path: Path) -> None:
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Weather?"}]})
    done, _ = await ran(tmp_path, "sh", "-c", f"curl -sN $OPENAI_BASE_URL/chat/completions -d '{body}'; true")
    assert done.out.endswith("data: [DONE]\n\n")
    (turn,) = done.turns()
    assert (said(turn), turn["agent_id"]) == (ANSWER, "sh")


async def test_a_program_that_says_nothing_we_see_is_told_of(tmp_path: Path) -> None:
    done, problems = await ran(tmp_path, "true")
    assert (done.out, spooled(done.settings)) == ("", [])
    assert problems.startswith("turnmill: no call of true to a model was seen: ")
    assert problems.count("\n") == 1


@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM)])
async def test_the_exit_status_is_the_programs(tmp_path: Path, command: str, status: int) -> None:
    async with started(tmp_path, "sh", "-c", command) as (process, _, __):
        await asyncio.wait_for(process.communicate(), WITHIN)
        assert process.returncode == status


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
async def test_signals_reach_the_program(tmp_path: Path, one: signal.Signals) -> None:
    name = one.name.removeprefix("SIG")
    script = f"trap 'echo heard {name}; exit 3' {name}; echo ready; while :; do sleep 0.1; done"
    async with started(tmp_path, "sh", "-c", script) as (process, _, __):
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), WITHIN) == b"ready\n"
        process.send_signal(one)
        out, _ = await asyncio.wait_for(process.communicate(), WITHIN)
    assert (out, process.returncode) == (f"heard {name}\n".encode(), 3)


async def test_an_answer_that_is_no_models_passes(tmp_path: Path) -> None:
    listing = "curl -s $OPENAI_BASE_URL/models; curl -sI $OPENAI_BASE_URL/models"
    done, problems = await ran(tmp_path, "sh", "-c", listing)
    assert '{"data": []' in done.out
    assert "HTTP/1.1 200" in done.out
    assert spooled(done.settings) == []
    assert "no call of sh to a model was seen" in problems
