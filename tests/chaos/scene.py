"""One play of a scenario: topics, a store and workers of its own, a load that is published, and what came of it."""

import asyncio
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiokafka import AIOKafkaProducer

from pipeline.kafka.admin import apply_topics
from pipeline.kafka.dead_letters import filed_letters
from pipeline.kafka.offsets import group_lag
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.canonical import turn_hash
from pipeline.worker.host.roles import ROLES
from pipeline.worker.repair.ledger import Ledger, take_stock
from tests.chaos.cluster import Brokers
from tests.chaos.load import Load, Record, Right, TurnKey
from tests.chaos.stores import Store
from tests.support.stored import stored_turns
from tests.support.workers import WorkerProcess
from topics.catalog import EVENTS, TURNS
from turnmill.errors import TurnmillError
from turnmill.kafka.client import client_options

PACE: Final = 10.0  # seconds over which a load is spread
WORKERS: Final = 3
QUICK: Final[Mapping[str, Any]] = {
    "partitions": 6,
    "session_timeout": 6.0,
    "checkpoint_interval": 0.5,
    "spill_after": 2.0,
    "terminal_grace": 30.0,
    "port": 0,
}
STARTED: Final = 180.0  # seconds: patience with a busy machine, and no target
SHOWN: Final = 5  # turns that are wrong, in a failure


class Publishing:
    """Records on their way to the events topic, a steady stream of them; what is not confirmed is sent again."""

    def __init__(self, settings: Settings, records: Sequence[Record], seconds: float, producers: int = 1) -> None:
        self.settings = settings
        self.records = records
        self.seconds = seconds
        self.producers = producers
        self.sent = 0
        self.again = 0
        self.done_at = 0.0
        self.acked_at: dict[int, float] = {}  # by the record's place, time.monotonic()
        self.task = asyncio.ensure_future(self._publish())

    async def until(self, share: float) -> None:
        """Wait until this share of all was handed to the producer."""
        while self.sent < share * len(self.records) and not self.task.done():
            await asyncio.sleep(0.02)

    async def _publish(self) -> None:
        options: dict[str, Any] = {"acks": "all", "enable_idempotence": True, "linger_ms": 5}
        options |= {"max_request_size": 5_000_000, "request_timeout_ms": 180_000}
        producers = [AIOKafkaProducer(**client_options(self.settings), **options) for _ in range(self.producers)]
        for producer in producers:
            await producer.start()
        try:
            todo = list(range(len(self.records)))
            began = time.monotonic()
            while todo:
                waiting = []
                for count, place in enumerate(todo):
                    waiting.append((place, await self._send(producers[place % self.producers], place)))
                    self.sent += 1
                    ahead = self.seconds * self.sent / len(self.records) - (time.monotonic() - began)
                    if ahead > 0.02 or count % 500 == 0:
                        await asyncio.sleep(max(0.0, ahead))
                todo = [place for place, confirmed in waiting if not await self._confirmed(confirmed)]
                self.again += len(todo)
        finally:
            for producer in producers:
                await producer.stop()
        self.done_at = time.monotonic()

    async def _send(self, producer: AIOKafkaProducer, place: int) -> asyncio.Future[Any] | None:
        key, value = self.records[place]
        try:
            confirmed: asyncio.Future[Any] = await producer.send(
                EVENTS.full_name(self.settings.topic_prefix), value, key=key
            )
        except Exception:  # the brokers are away for longer than it waits: later
            await asyncio.sleep(0.2)
            return None
        confirmed.add_done_callback(lambda _: self.acked_at.__setitem__(place, time.monotonic()))
        return confirmed

    async def _confirmed(self, confirmed: asyncio.Future[Any] | None) -> bool:
        if confirmed is None:
            return False
        try:
            await confirmed
        except Exception:  # it may be there or not; the assembler drops what comes twice
            return False
        return True


@dataclass(slots=True)
class Outcome:
    """What came of one play. `problems` are why it failed; none: it passed."""

    balance: Ledger | None = None
    turns: int = 0
    twice: int = 0
    truncated: int = 0
    different: int = 0
    recovery: float = 0.0
    seconds: float = 0.0
    note: str = ""
    problems: list[str] = field(default_factory=list)


class Scene:
    """`async with Scene(…) as scene`: on leaving, workers are ended, and topics and store are removed.

    `beside`: the commit of the other version, where a scenario has one; None: it is made of this tree.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        brokers: Brokers,
        store: Store,
        load: Load,
        folder: Path,
        cache: Path,
        **settings: Any,
    ) -> None:
        self.name = name
        self.seed = seed
        self.brokers = brokers
        self.store = store
        self.load = load
        self.folder = folder / f"{name}-{seed}-{store.kind.lower()}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.settings = Settings(
            home=self.folder,
            cache=cache,
            brokers=brokers.direct,
            topic_prefix=f"chaos-{name}-{seed}-{uuid.uuid4().hex[:6]}",
            **{**QUICK, **settings},
        )
        self.crew: list[WorkerProcess] = []
        self.publishing: Publishing | None = None
        self.pace = PACE
        self.workers = WORKERS
        self.beside: str | None = None
        self.note = ""
        self.wrong: list[str] = []  # what the act has found already
        self._mended_at = 0.0

    async def __aenter__(self) -> Self:
        self.settings = self.settings.model_copy(update={"store": await self.store.open(self.folder)})
        async with await ThreadStore.open(self.settings.store_url, migrate=True):
            pass
        await apply_topics(self.settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.publishing is not None:
            self.publishing.task.cancel()
        for worker in self.crew:
            worker.end()
        try:
            await self.store.close()
        finally:
            await self.brokers.delete_topics(self.settings)

    # ---- workers

    def worker(self, *program: str, brokers: str | None = None, roles: str | None = None, **more: Any) -> WorkerProcess:
        """One more worker, not started. `program`: instead of `-m pipeline`; `more`: variables, `folder`."""
        settings = self.settings.model_copy(update={"brokers": brokers} if brokers else {})
        options = {"program": program or ("-m", "pipeline"), **more} | ({"roles": roles} if roles else {})
        worker = WorkerProcess(settings, f"worker-{len(self.crew)}", **options)
        self.crew.append(worker)
        return worker

    async def start(self, workers: int | None = None) -> None:
        """So many new workers, by default all; returns when all do their work."""
        added = [self.worker().start() for _ in range(workers or self.workers)]
        await self.ready(*added)

    async def ready(self, *workers: WorkerProcess, within: float = STARTED) -> float:
        """Wait until all are. -> seconds."""
        began = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as client:
            for worker in workers:
                url = await worker.url(within)
                while not await _is_ready(client, url):
                    if time.monotonic() - began > within:
                        raise AssertionError(f"{worker.name} was not ready within {within:.0f} s")
                    await asyncio.sleep(0.1)
        return time.monotonic() - began

    # ---- load

    def publish(self, times: float = 1.0) -> None:
        """Begin with it; it takes so many times its pace."""
        self.publishing = Publishing(self.settings, self.load.records, times * self.pace, self.load.producers)

    async def published(self, share: float) -> None:
        """Wait until this share of the load was sent."""
        assert self.publishing is not None
        await self.publishing.until(share)

    async def all_published(self) -> None:
        """Wait until the broker has confirmed all of it."""
        assert self.publishing is not None
        await self.publishing.task

    async def publish_later(self) -> None:
        """What the load holds back."""
        await self.all_published()
        await Publishing(self.settings, self.load.later, 1.0).task

    # ---- what came of it

    def mended(self) -> None:
        """The fault is over now; by default it is when the scenario's act is."""
        self._mended_at = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether the fault is."""
        return self._mended_at > 0

    async def outcome(self, within: float) -> Outcome:
        """Wait until all is stored as it must be, `within` seconds; then look at everything."""
        await self.all_published()
        assert self.publishing is not None
        began = max(self._mended_at, self.publishing.done_at)
        result = Outcome(note=self.note)
        right = await self._until(self._stored_right, within)
        result.recovery = max(0.0, time.monotonic() - began)
        settled = await self._until(self._settled, 60)
        if not right or not settled:
            result.problems.append(f"after {within:.0f} s not all was {'committed' if right else 'stored'}")
        await self._look(result)
        return result

    async def idle(self, within: float) -> bool:
        """Wait until all is stored as it must be and committed: no worker has anything left to do. -> whether so."""
        return await self._until(self._done, within)

    async def _done(self) -> bool:
        return await self._stored_right() and await self._settled()

    async def _until(self, reached: Callable[[], Awaitable[bool]], within: float) -> bool:
        deadline = time.monotonic() + within
        while True:
            try:
                if await reached():
                    return True
            except TurnmillError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self.name}: {error}") from error
            if time.monotonic() > deadline or all(_ended(worker) for worker in self.crew):
                return False
            await asyncio.sleep(0.2)

    async def _stored_right(self) -> bool:
        found = await self.hashes()
        return all(found.get(key) == (right.hash, right.status) for key, right in self.load.answer.turns.items())

    async def _settled(self) -> bool:
        """All letters are there, and every offset is committed."""
        if not self.load.answer.letters <= await self._letters():
            return False
        for role, topic in (("assemble", EVENTS), ("store", TURNS)):
            if any(row.lag for row in await group_lag(self.settings, ROLES[role].group(self.settings), [topic])):
                return False
        return True

    async def hashes(self) -> dict[TurnKey, tuple[str | None, str]]:
        """Every stored turn: its canonical hash, as its row says, and its status."""
        async with ThreadStore(self.settings.store_url) as store:
            return {
                (thread.text, record["turn_id"]): (record["hash"], record["status"])
                async for thread, record, _ in stored_turns(store)
            }

    async def _letters(self) -> set[bytes | None]:
        return {filed.letter.value async for filed in filed_letters(self.settings) if filed.letter is not None}

    async def _look(self, result: Outcome) -> None:
        answer = self.load.answer
        async with ThreadStore(self.settings.store_url) as store:
            found = await self._documents(store)
            result.balance = balance = await take_stock(self.settings, store)
        result.turns = len(found)
        strange = sorted(found.keys() - answer.turns.keys())
        missing = sorted(answer.turns.keys() - found.keys())
        short = [k for k, right in answer.turns.items() if k in found and found[k].status != right.status]
        other = [k for k, right in answer.turns.items() if k in found and found[k].hash != right.hash]
        billed = [k for k, right in answer.turns.items() if k in found and found[k].usage > right.usage]
        unbilled = [k for k, right in answer.turns.items() if k in found and found[k].usage < right.usage]
        result.twice = len(strange) + len(billed)
        result.truncated = len([k for k in short if found[k].status == "interrupted"])
        result.different = len(other)
        if balance.runs != self.load.published:
            result.problems.append(f"{self.load.published} runs were published, the events topic has {balance.runs}")
        if balance.open:
            result.problems.append(f"{balance.open} runs are open still: {_some(balance.open_runs)}")
        letters = await self._letters()
        for what, these in (
            ("not stored", missing),
            ("stored, and no run of ours", strange),
            ("with more usage than they have", billed),
            ("with less usage than they have", unbilled),
            ("of another status", short),
            ("with another hash", other),
            ("dead letters that should not be", letters - answer.letters),
            ("dead letters that should be", answer.letters - letters),
        ):
            if these:
                result.problems.append(f"{len(these)} {what}: {_some(these)}")

    async def _documents(self, store: ThreadStore) -> dict[TurnKey, Right]:
        """Every stored turn with the hash of what is really there, large values included, and its rows of usage."""
        contents = ContentStore.of(self.settings)
        found = {}
        async for thread, record, rows_of_usage in stored_turns(store):
            turn = record["turn"]
            if turn is not None:
                turn = (await contents.inlined(thread, {"turns": [turn]}))["turns"][0]
            digest = turn_hash(turn) if turn is not None else None
            found[thread.text, record["turn_id"]] = Right(digest, record["status"], rows_of_usage)
        return found

    def logs(self, lines: int = 15) -> str:
        """The ends of the workers' logs."""
        return "\n".join(
            f"--- {worker.log}\n" + "\n".join(line[:300] for line in worker.text().splitlines()[-lines:])
            for worker in self.crew
        )


async def _is_ready(client: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with client.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _ended(worker: WorkerProcess) -> bool:
    return worker.process is None or worker.process.poll() is not None


def _some(items: Any) -> str:
    found = [str(item)[:120] for item in items]
    return ", ".join(found[:SHOWN]) + (", …" if len(found) > SHOWN else "")
