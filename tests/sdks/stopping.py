"""SDKs whose runs are stopped over HTTP while a provider on this machine talks: their programs, and who stops them.

`tests/sdks/check_stops.py` looks at what becomes of their runs, `python -m tests.stops` at how long they go on.
"""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from pipeline.settings import Settings
from tests.sdks.proxied import KEY, claude_code, clients, codex
from tests.sdks.python_sdks import HERE, environment
from tests.support.gateways import Running, client, running
from tests.support.places import ROOT
from tests.support.talking_provider import Provider, Talk
from tests.support.waiting import until
from tests.support.workers import environment as variables
from turnmill.control.record import AFTER_TURN, NOW

TOKENS: Final = 3  # that are there before the stop
NODE: Final = "node"
CAPTURED: Final = (  # by `turnmill.auto`, or by a proxy: the program has no line of ours
    *("openai-chat", "openai-responses", "openai-async", "anthropic", "anthropic-async"),
    *("google-genai", "google-genai-async", "mistral"),
)
TEED: Final = ("tee-openai", "tee-openai-sync", "tee-without-a-loop", "tee-anthropic", "tee-google")
ENVIRONMENTS: Final = {
    "providers": (*CAPTURED, *TEED),
    "openai-agents": ("agents", "tee-agents"),
    "pydantic-ai-2.68.0": ("pydantic-events", "pydantic-ai-sdk", "pydantic-ag-ui"),
    "langgraph": ("langgraph-invoke", "langgraph-ainvoke", "tee-langgraph"),
    "claude-agent-sdk": ("claude-query", "claude-client"),
    "google-adk": ("adk", "tee-adk"),
    NODE: ("chat", "responses", "messages", "gemini", "ai-responses", "ai-chat", "ai-messages", "claude", "codex"),
}
PROGRAMS: Final = {"claude": claude_code, "codex": codex}
OF: Final = {sdk: name for name, sdks in ENVIRONMENTS.items() for sdk in sdks}


def ways_of(sdk: str) -> tuple[str, ...]:
    """How the program of an SDK is heard, and hears: itself over Kafka or a gateway, or by one of the proxies."""
    if OF[sdk] == NODE:
        return ("proxy", "run")
    return ("kafka", "gateway", "proxy") if sdk in CAPTURED else ("kafka",)


TRIED: Final = tuple((sdk, way) for sdk in OF for way in ways_of(sdk))


@dataclass(frozen=True)
class Stage:
    """A gateway whose proxy has the provider as its upstream `talk`.

    Talks have the names `{sdk}-{way}-{mode}-{number}`.
    """

    gateway: Running
    provider: Provider
    http: httpx.AsyncClient

    @property
    def settings(self) -> Settings:
        return self.gateway.settings


@asynccontextmanager
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    """A gateway, and the provider; the topics are there."""
    async with Provider().serving() as provider:
        given = {"gateway_port": 0, "control": True, "gateway_proxy": f"talk={provider.url}", "gateway_rate": 0.0}
        async with running(settings.model_copy(update=given)) as gateway, client(gateway.url) as http:
            yield Stage(gateway, provider, http)


@dataclass(frozen=True)
class Stopped:
    """One talk that was stopped: its run, and the command. `at`: when that was given, as of `Talk.sent`."""

    name: str
    thread: str
    run: str
    command: str
    at: float


async def open_runs(on: Stage) -> list[dict[str, Any]]:
    """As the gateway lists them."""
    found: list[dict[str, Any]] = (await on.http.get("/v1/runs")).json()["runs"]
    return found


async def stop(
    on: Stage, name: str, before: set[str], said: asyncio.Future[Any], *, stream: bool = True, mode: str = NOW
) -> Stopped:
    """Stop the run of a talk, none of those before, once it has some tokens. `said`: what its program says then."""

    async def talks() -> dict[str, Any] | None:
        assert not said.done(), said.result()
        talk: list[Talk] = on.provider.talks.get(name, [])
        if not talk or (stream and len(talk[0].sent) < TOKENS):
            return None
        return next((run for run in await open_runs(on) if run["run_id"] not in before), None)

    run = await until(talks, lambda: f"{name} does not talk, or has no run")
    at = time.monotonic()
    url = f"/v1/threads/{run['thread_id']}/runs/{run['run_id']}/stop"
    answer = await on.http.post(url, json={"by": "ann", "mode": mode})
    assert answer.status_code == 202, answer.text
    return Stopped(name, run["thread_id"], run["run_id"], answer.json()["command_id"], at)


async def in_state(on: Stage, command: str, state: str) -> bool:
    """Return True if a command is in this state."""
    return bool((await on.http.get(f"/v1/commands/{command}")).json()["state"] == state)


class Program:
    """A program that talks when it is told to."""

    def __init__(self, on: Stage, process: Process, name: str) -> None:
        self._on, self._process, self._name = on, process, name
        self._talks = 0

    async def stopped(self, *, stream: bool = True, mode: str = NOW) -> tuple[Stopped, dict[str, Any]]:
        """Let it talk, and stop its run -> what it says then, too. After the turn: the provider ends it, once told."""
        name = f"{self._name}-{mode}-{self._talks}"
        self._talks += 1
        before = {run["run_id"] for run in await open_runs(self._on)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"name": name, "stream": stream}).encode() + b"\n")
        said = asyncio.create_task(self._line())
        found = await stop(self._on, name, before, said, stream=stream, mode=mode)
        if mode == AFTER_TURN:
            await until(partial(in_state, self._on, found.command, "acknowledged"))
            assert self._on.provider.talks[name][0].closed is None, "the turn was cut"
            self._on.provider.finishing.add(name)
        return found, await asyncio.wait_for(said, 120)

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.startswith(b"{"):  # SDKs print warnings before
                return dict(json.loads(line))
        raise AssertionError("the program has ended")


def told(on: Stage, way: str, home: Path) -> dict[str, str]:
    """The variables of a program: of ours, and its SDK's own, whose addresses have NAME for a talk's name."""
    home.mkdir(parents=True, exist_ok=True)
    settings = on.settings.model_copy(update={"home": home, "gateway_proxy": ""})
    if way == "gateway":
        settings = settings.model_copy(update={"publish_url": on.gateway.url})
    url = f"{on.gateway.url}/proxy/talk/NAME" if way == "proxy" else f"{on.provider.url}/NAME"
    addresses = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    ours = {"TURNMILL_CAPTURE_HOSTS": "127.0.0.1=talk", "TURNMILL_CONTROL": "true", "PYTHONPATH": str(ROOT)}
    return {**variables(settings), **addresses, **keys, **ours, "PATH": os.environ["PATH"]}


@asynccontextmanager
async def program(on: Stage, sdk: str, way: str, home: Path) -> AsyncIterator[Program]:
    """A program with this SDK. It ends well, or the test fails."""
    own = told(on, way, home)
    if OF[sdk] == NODE:
        command = [
            "node",
            str(clients() / "stop.mjs"),
            sdk,
            *(str(PROGRAMS[one]()) for one in [sdk] if one in PROGRAMS),
        ]
        run = [sys.executable, "-m", "turnmill", "run", "--"] if way == "run" else []
    else:
        python = str(environment("providers-over-http" if way == "gateway" else OF[sdk]))
        command = [python, str(HERE / "stopped_program.py"), sdk]
        run = [python, "-m", "turnmill", "run", "--"] if sdk in CAPTURED and way != "proxy" else []
    process = await asyncio.create_subprocess_exec(*run, *command, env=own, stdin=PIPE, stdout=PIPE, limit=1_000_000)
    try:
        yield Program(on, process, f"{sdk}-{way}")
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 120) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
