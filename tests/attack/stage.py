"""The stage of an attack: a worker with all roles and a gateway, as processes, and two tenants who call them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import SecretStr

from pipeline.gateway.access.principal import Scope
from pipeline.gateway.access.token_table import new_token
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.attack.bounded_memory import within_bound
from tests.support import fork_server
from tests.support.fork_server import Started
from tests.support.gateways import ALL, client, sse
from tests.support.topic_records import publish, read_all
from tests.support.waiting import until
from tests.support.workers import environment
from topics import dead_letter
from topics.catalog import DEAD_LETTERS, EVENTS
from topics.dead_letter import DeadLetter
from turnmill.wire.envelope import encode

SLOW_NAMES: Final = Path(__file__).with_name("slow_names")
ROLES: Final = "assemble,metrics,store,feedback,archive,feedback-archive"
STILL: Final = 40.0  # seconds without any progress of any role, after which nothing more is waited for
TOKENS: Final = "tokens.jsonl"  # in the home of the stage
COMMAND: Final = 120.0  # seconds of a command
NO_VARIABLES: Final[Mapping[str, str]] = {}
IDLE: Final = 12.0  # the same where every role has read all that there is: longer than any deadline below
LAG: Final = re.compile(r'"lag": [1-9]')
BEHIND: Final = re.compile(r'"role": "([\w-]+)", "group": "[^"]*", "topic": "[^"]*", "lag": ([1-9]\d*)')
HELD: Final = re.compile(r'^turnmill_gateway_loop_held_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
BOUND: Final = 1 << 30  # bytes of a worker's memory: the chart's default limit
QUICK: Final = {
    "checkpoint_interval": 0.3,
    "gap_timeout": 4.0,
    "terminal_grace": 1.0,
    "archive_age": 2.0,
    "gateway_rate": 0.0,
    "gateway_header_seconds": 3.0,
    "partitions": 1,  # so that attacker and victim share it
}


@dataclass(frozen=True, slots=True)
class Code:
    """Whose code is attacked: an interpreter, and the folder that it is started in. By default our own; `forked`: by
    the tests' fork server; `bounded`: within the memory that the chart gives a pod.
    """

    python: str = sys.executable
    folder: Path | None = None
    forked: bool = False
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A run of the victim: in which conversation, and what the stored thread must say, word for word."""

    thread: str
    text: str


class Program:
    """A process of the attacked code; what it writes is in `log`."""

    def __init__(self, code: Code, settings: Settings, log: Path, *arguments: str, **variables: str) -> None:
        self.log = log
        self.process: Started
        self._code = code
        self._arguments = arguments
        self._variables = environment(settings, **variables)
        self.start()

    def start(self) -> Program:
        """Start it, with a new log."""
        with self.log.open("wb") as out:
            if self._code.forked:
                self.process = fork_server.start(self._arguments, self._variables, subprocess.DEVNULL, out, out)
            else:
                command = [self._code.python, "-m", "pipeline", *self._arguments]
                if self._code.bounded:
                    command = within_bound(command, BOUND)
                variables, folder = self._variables, self._code.folder
                self.process = subprocess.Popen(command, env=variables, cwd=folder, stdout=out, stderr=out)
        return self

    async def url(self) -> str:
        """Where it listens, once it has said so."""

        async def said() -> re.Match[str] | None:
            assert self.process.poll() is None, self.text()
            return re.search(r"^turnmill: .*; (http://[\w.:]+)$", self.text(), re.MULTILINE)

        return (await until(said, self.text))[1]

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def peak(self) -> int:
        """The most memory that it has had since `forget_peak`, in bytes."""
        (line,) = re.findall(r"^VmHWM:\s+(\d+) kB$", self._proc("status").read_text(), re.MULTILINE)
        return int(line) * 1024

    def forget_peak(self) -> None:
        self._proc("clear_refs").write_text("5")

    def cpu(self) -> float:
        """Seconds that it has computed."""
        fields = self._proc("stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.process.pid}/{name}")


class Stage:
    """Everything that attacks need. `acme` is the victim, `evil` the attacker: each a client with its own token."""

    def __init__(self, settings: Settings, code: Code, worker: Program, gateway: Program, url: str) -> None:
        self.settings = settings
        self.code = code
        self.worker = worker
        self.gateway = gateway
        self.url = url
        self.acme: httpx.AsyncClient
        self.evil: httpx.AsyncClient
        self.operator: httpx.AsyncClient
        self._numbers = count(1)

    # ---- what tenants do

    async def upload(
        self, caller: httpx.AsyncClient, thread: str, run: str, events: Iterable[Any] | bytes, **query: Any
    ) -> httpx.Response:
        """Publish events as a run's stream; of the AI SDK, unless `dialect` says otherwise."""
        body = events if isinstance(events, bytes) else sse(list(events))
        asked = {"dialect": "vercel-ai", **query}
        return await caller.post(f"/v1/threads/{thread}/runs/{run}/stream", params=asked, content=body)

    async def speak(self, thread: str | None = None, run: str = "r1", **query: Any) -> Said:
        """A whole run of the victim, in a conversation of its own."""
        name = thread or f"acme-{next(self._numbers)}"
        said = Said(name, sentence(name))
        answer = await self.upload(self.acme, name, run, spoken(said.text), **query)
        assert answer.status_code == 200, f"the victim's upload: {answer.text}"
        return said

    async def is_whole(self, said: Said) -> None:
        """Wait until what the victim said is stored, complete and alone in its thread."""
        document: dict[str, Any] = {}

        async def stored() -> bool:
            answer = await self.acme.get(f"/v1/threads/{said.thread}")
            document.clear()
            document.update(answer.json())
            turns = agent_turns(document) if answer.status_code == 200 else []
            return bool(turns) and text_of(turns[-1]) == said.text and turns[-1]["completion_status"] == "complete"

        await self.within_progress(stored, lambda: f"{said.thread} is not whole: {json.dumps(document)[:600]}")
        assert len(document["turns"]) == 1, f"{said.thread} has more than its turn: {json.dumps(document)[:2000]}"

    async def within_progress(self, look: Any, failure: Any) -> None:
        """Wait for `look` as long as some role gets on, or the failure says something new, and STILL seconds more."""
        since, before = time.monotonic(), ""
        while not await look():
            now = await self.progress() + failure()
            if now != before:
                since, before = time.monotonic(), now
            patience = STILL if LAG.search(now) else IDLE
            assert time.monotonic() - since < patience, f"{failure()}; behind: {BEHIND.findall(before)}"
            await asyncio.sleep(0.2)

    async def progress(self) -> str:
        """How far each role has read, as text to compare."""
        status = (await self.operator.get("/v1/status")).json()
        return json.dumps([status["roles"], status["dead_letters"], status["store"]])

    async def held(self) -> dict[str, float]:
        """How often the gateway's loop was held for more than 10 ms, by the bound of the bucket."""
        text = (await self.operator.get("/metrics")).text
        return {bound: float(count) for bound, count in HELD.findall(text)}

    async def longest_hold(self, before: Mapping[str, float]) -> float:
        """The bucket of the longest hold since `before`, in seconds: it was shorter than that."""
        longest, known = 0.0, 0.0
        for bound, times in (await self.held()).items():
            if times - before.get(bound, 0) > known:
                longest, known = float(bound), times - before.get(bound, 0)
        return longest

    # ---- what lies behind

    async def all_read(self) -> None:
        """Wait until every role has read all that there is."""

        async def no_lag() -> bool:
            await asyncio.sleep(2.5)  # the gateway's answer is as old as that
            return not LAG.search(await self.progress())

        await self.within_progress(no_lag, lambda: "the topics are not read to their ends")

    async def publish(self, *records: Mapping[str, Any] | bytes, key: bytes = b"key") -> None:
        """Put envelopes, or anything, on the events topic, as whoever may write to it; all in one go."""
        values = [record if isinstance(record, bytes) else encode(dict(record)) for record in records]
        await publish(self.settings, EVENTS, [(key, value) for value in values], linger_ms=200)

    async def letters(self) -> list[DeadLetter]:
        found: list[Any] = await read_all(self.settings, DEAD_LETTERS)
        return [dead_letter.from_record(one.key, one.value, one.headers) for one in found]

    @asynccontextmanager
    async def another_token(self, name: str, tenant: str) -> AsyncIterator[str]:
        """-> a token with all scopes; it is revoked with the block."""
        file = Path(self.settings.home) / TOKENS
        before = file.read_text()
        token, line = new_token(name, ALL, tenant)
        file.write_text(f"{before}\n{line.model_dump_json(exclude_none=True)}")
        try:
            yield token
        finally:
            file.write_text(before)

    @asynccontextmanager
    async def another_gateway(self, **changes: Any) -> AsyncIterator[str]:
        """-> the address of a gateway of the same pipeline with other settings, without tokens unless they say so."""
        async with self.beside("gateway", **changes) as program:
            yield await program.url()

    @asynccontextmanager
    async def beside(
        self, *arguments: str, variables: Mapping[str, str] = NO_VARIABLES, code: Code | None = None, **changes: Any
    ) -> AsyncIterator[Program]:
        """-> another program of the same pipeline, with other settings, variables or code; it ends with the block."""
        home = Path(self.settings.home) / f"{arguments[0]}-{next(self._numbers)}"
        home.mkdir()
        settings = self.settings.model_copy(update={"gateway_tokens": None, "home": home, **self._same(), **changes})
        program = Program(code or self.code, settings, home / "log", *arguments, **variables)
        try:
            yield program
        finally:
            program.end()

    async def command(self, *arguments: str, **changes: Any) -> tuple[int, str]:
        """-> the status of a command of the same pipeline, and what it has said."""
        async with self.beside(*arguments, **changes) as program:
            return await asyncio.to_thread(program.process.wait, COMMAND), program.text()

    def _same(self) -> dict[str, str | None]:
        return {"store": self.settings.store_url, "content": self.settings.content_url}

    async def restart_worker(self) -> None:
        """Kill the worker, as the kernel does for want of memory, and start it again."""
        self.worker.end()
        await self.worker.start().url()

    def alive(self) -> None:
        for name, program in (("worker", self.worker), ("gateway", self.gateway)):
            assert program.process.poll() is None, f"the {name} has ended:\n{program.text()[-3000:]}"


def sentence(of: str) -> str:
    """What the victim says in a conversation: each word of it can be told from any other's."""
    return "".join(f"{of}-says-{n} " for n in range(30))


def spoken(text: str) -> list[dict[str, Any]]:
    """A whole run that says this, in several deltas."""
    words = re.findall(r"\S+\s*", text)
    deltas = [{"type": "text-delta", "id": "t", "delta": word} for word in words]
    head = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    return [*head, *deltas, {"type": "text-end", "id": "t"}, {"type": "finish-step"}, {"type": "finish"}]


def agent_turns(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [turn for turn in document["turns"] if turn["turn_type"] == "agent"]


def text_of(turn: Mapping[str, Any]) -> str:
    parts = [part for message in turn["messages"] for part in message.get("parts", ())]
    return "".join(str(part["content"]) for part in parts if part.get("part_kind") == "text")


@asynccontextmanager
async def staged(settings: Settings, code: Code) -> AsyncIterator[Stage]:
    """Topics, worker and gateway with these settings; they end with the block."""
    home = Path(settings.home)
    home.mkdir(parents=True, exist_ok=True)
    await apply_topics(settings)
    tokens, lines = {}, []
    for name, tenant in (("acme", "acme"), ("evil", "evil"), ("operator", None)):
        scopes: tuple[Scope, ...] = ALL
        tokens[name], line = new_token(name, scopes, tenant)
        lines.append(line.model_dump_json(exclude_none=True))
    (home / TOKENS).write_text("\n".join(lines))
    guarded = settings.model_copy(update={"gateway_tokens": SecretStr(str(home / TOKENS))})
    if not settings.store_url.startswith("sqlite:"):  # which a worker makes itself
        migration = Program(code, settings, home / "migrate.log", "store", "migrate")
        assert await asyncio.to_thread(migration.process.wait) == 0, migration.text()
    async with AsyncExitStack() as stack:
        worker = Program(
            code,
            settings,
            home / "worker.log",
            "worker",
            "--roles",
            f"{ROLES},webhooks,notices" if settings.webhooks else ROLES,
            PYTHONPATH=str(SLOW_NAMES),
        )
        stack.callback(worker.end)
        gateway = Program(code, guarded, home / "gateway.log", "gateway")
        stack.callback(gateway.end)
        await worker.url()
        stage = Stage(guarded, code, worker, gateway, await gateway.url())
        for name, token in tokens.items():
            setattr(stage, name, await stack.enter_async_context(client(stage.url, token)))
        yield stage
