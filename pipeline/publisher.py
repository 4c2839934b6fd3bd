"""Publishing runs from an agent worker: one object for the process, one context for each run.

    async with Publisher(settings) as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

A run's events are numbered, dated, packed into records for at most 20 ms, and sent by an idempotent producer. What is
not confirmed within a second, or does not fit into memory, goes to a spool on disk, which drains in order when the
broker takes records again: now, or at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from pydantic import ValidationError

from pipeline.delivery import Counts, Delivery
from pipeline.dialects import DIALECTS
from pipeline.dialects.framing import Decoder, Framed, decoder_for
from pipeline.errors import BrokerError, CallerError, InvalidRecord
from pipeline.kafka.client import client_options
from pipeline.logs import of_run
from pipeline.producer import connected
from pipeline.sdk_events import as_event
from pipeline.settings import Settings
from pipeline.spool import Spool
from pipeline.trace_context import current
from topics import traceparent as w3c
from topics.agent_event import ENDS, MAX_BYTES, RunInfo
from topics.catalog import EVENTS
from topics.identity import thread_uuid
from topics.micro_batch import MicroBatch
from topics.traceparent import TraceParent

LINGER = 0.02  # seconds that an event waits for the next ones
FLUSH_WITHIN = 30.0  # seconds, on exit
KEEP_AFTER = 5.0  # seconds, on exit, until what is unconfirmed stays in the spool

Event = TypeVar("Event")
Chunk = TypeVar("Chunk", bytes, str)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """Where a publisher's records are: sent + adopted = confirmed + waiting + spooled + dropped + refused.

    `adopted`: found in the spools of dead processes. `waiting`: in memory. `spooled`: on disk. `dropped`: only with
    THREADMILL_SPOOL_POLICY=drop. `refused`: by the broker for good, and kept in a file. `damaged`: places of adopted
    files that could not be read, put aside. `trouble`: why nothing is confirmed just now, if that is so.
    """

    sent: int
    confirmed: int
    waiting: int
    spooled: int
    dropped: int
    refused: int
    adopted: int
    damaged: int
    trouble: str | None


class Publisher:
    """The connection to the broker that all runs of a process share.

    With the spool, a broker that is away is no error. Without (`spool=False`), its absence at the start is a
    BrokerError, `send` waits for a slow one, and what is not confirmed at the end is a BrokerError, too.
    """

    def __init__(self, settings: Settings, *, spool: bool = True) -> None:
        self._settings = settings
        self._topic = EVENTS.full_name(settings.topic_prefix)
        self._spooled = spool
        self._spool: Spool | None = None
        self._delivery: Delivery | None = None
        self._runs: set[PublishedRun] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.counts = Counts()

    async def __aenter__(self) -> Self:
        """Raises CallerError for settings that can't work, and BrokerError without a spool."""
        settings = self._settings
        client_options(settings)
        self.counts = Counts()  # what an earlier block has left on disk is adopted
        connect = partial(connected, settings, self._topic)
        if self._spooled:
            folder = settings.spool_folder / self._topic
            self._spool = await asyncio.to_thread(Spool, folder, settings.spool_bytes)
            self.counts.adopted += self._spool.adopted
        else:
            connect = partial(_given, await connect())
        drop = settings.spool_policy == "drop"
        self._delivery = Delivery(connect, self._topic, settings.brokers, self.counts, self._spool, drop=drop)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._linger_is_over()
        delivery, self._delivery = self.delivery, None
        within = KEEP_AFTER if self._spool else FLUSH_WITHIN
        left = await delivery.close(within)
        if self._spool and (kept := self.counts.unconfirmed - left):
            log.warning("%d records are in %s: the next publisher there sends them", kept, self._spool.folder)
        if not left:
            return
        why = delivery.failure or delivery.trouble or f"no answer for {within:.0f} s"
        message = (
            f"{self._settings.brokers} has not confirmed {left} record{'' if left == 1 else 's'}, which may be lost "
            f"({why}): `threadmill doctor` says what is wrong"
        )
        if error is not None:
            log.error(message)
        else:
            raise BrokerError(message)

    def report(self) -> Report:
        """Where the records are now; after the end, where they were left."""
        counts, delivery = self.counts, self._delivery
        waiting = delivery.waiting if delivery else 0
        return Report(
            sent=counts.records,
            confirmed=counts.confirmed,
            waiting=waiting,
            spooled=counts.unconfirmed - waiting,
            dropped=counts.dropped,
            refused=counts.refused,
            adopted=counts.adopted,
            damaged=self._spool.damaged if self._spool else 0,
            trouble=(delivery.failure or delivery.trouble) if delivery else None,
        )

    def run(
        self,
        *,
        thread_id: str,
        agent_id: str,
        dialect: str,
        run_id: str | None = None,
        tenant: str | None = None,
        info: RunInfo | Mapping[str, Any] | None = None,
        max_events: int | None = None,
        first_seq: int = 0,
        traceparent: str | None = None,
    ) -> PublishedRun:
        """One run; `run_id` is a new UUID where it is not given, `max_events` bounds its records beside their size.
        `first_seq`: the number of the first event, where others of the run were published before. `traceparent` (W3C):
        the span of which the run is a part, by default OpenTelemetry's current one; one of another form is left out.

        A `thread_id` that is no UUID becomes one, and is kept as the thread's external id. Raises CallerError for
        arguments that can't be right, InvalidRecord for an `info` that is too large.
        """
        for name, value in (("thread_id", thread_id), ("agent_id", agent_id)):
            if not isinstance(value, str) or not value:
                raise CallerError(f"{name} must be a string that is not empty, got {value!r:.80}")
        if dialect not in DIALECTS:
            raise CallerError(f"no dialect is called {dialect!r:.80}: choose one of {', '.join(DIALECTS)}")
        try:
            known = RunInfo.model_validate(info or {})
        except ValidationError as error:
            raise CallerError(f"info: {error.errors(include_url=False)[0]['msg']}") from error
        uuid, external_id = thread_uuid(thread_id, tenant)
        identity = {"thread_id": uuid, "run_id": run_id or str(uuid4()), "agent_id": agent_id, "dialect": dialect}
        if tenant:
            identity["tenant"] = tenant
        facts = known.model_dump(exclude_none=True)
        if external_id:
            facts.setdefault("external_id", external_id)
        span = w3c.parse(traceparent or facts.pop("traceparent", None) or current())
        if span is not None:
            facts["traceparent"] = span.text  # a record that was in the spool comes without its headers
        run = PublishedRun(self, MicroBatch(identity, facts, max_events=max_events, first_seq=first_seq), span)
        self._runs.add(run)
        self.counts.runs += 1
        return run

    async def put(self, key: bytes, value: bytes) -> None:
        """Publish a finished envelope as it is (the caller has checked it); waits while too much is unconfirmed."""
        await self.delivery.room()
        self.delivery.put(key, value)

    async def flush(self, within: float = FLUSH_WITHIN) -> None:
        """Return when all that was sent so far is confirmed. Raises BrokerError after `within` seconds."""
        self._linger_is_over()
        if await self.delivery.drained(within):
            raise BrokerError(f"{self._settings.brokers} did not confirm all records within {within:.0f} s")

    async def kept(self, within: float = FLUSH_WITHIN) -> None:
        """Return when all that was sent so far is confirmed, or in the spool. Raises BrokerError after `within` s."""
        self._linger_is_over()
        if not await self.delivery.kept(within):
            why = self.delivery.failure or self.delivery.trouble or f"no answer for {within:.0f} s"
            raise BrokerError(f"{self._settings.brokers} has not confirmed what was published: {why}")

    @property
    def delivery(self) -> Delivery:
        """The records on their way. Raises CallerError outside of `async with`."""
        if self._delivery is None:
            raise CallerError("the publisher is closed: use it inside `async with Publisher(settings)`")
        return self._delivery

    def linger(self) -> None:
        """Let all runs' events wait a moment for the next ones, so that one request takes them all."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER, self._linger_is_over)

    def _linger_is_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for run in self._runs:
            run.flush()

    def forget(self, run: PublishedRun) -> None:
        """A run is over."""
        self._runs.discard(run)


class PublishedRun:
    """One run on its way out. Leaving its context ends it: complete; aborted when cancelled; error on an exception."""

    def __init__(self, publisher: Publisher, batch: MicroBatch, span: TraceParent | None) -> None:
        self._publisher = publisher
        self._batch = batch
        self._key = batch.identity["thread_id"].encode()
        self.log_extra = of_run(self.thread_id, self.run_id, span and span.text)  # for lines about it
        self._headers = None if span is None else w3c.headers(span.text)
        self._decoder: Decoder | None = None
        self._over = False
        self.records = 0
        self.verdict = "complete"  # how a context that is left without an exception has ended

    @property
    def thread_id(self) -> str:
        """The thread's UUID."""
        return str(self._batch.identity["thread_id"])

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self._batch.identity["run_id"])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._over:
            return
        if error is None:
            await self.end(self.verdict)
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
            await self.end("aborted")
        else:
            await self.end("error")

    async def send(self, event: Any, *, at: int | None = None) -> None:
        """Publish one event, a dict or an object of the SDK; `at` is epoch ms where it is not now.

        Waits only where there is no room in memory, and on disk neither. Raises InvalidRecord for an event that can't
        travel (no JSON, over 900 KB): it is left out, the run goes on. Raises BrokerError where the broker refuses
        what was sent, and there is no spool.
        """
        if self._over:
            raise CallerError(f"run {self.run_id} is over: nothing can be sent after its end")
        delivery = self._publisher.delivery
        await delivery.room()
        for record in self._batch.add(as_event(event), _now() if at is None else at):
            self._put(record)
        self._publisher.counts.events += 1
        if len(self._batch):
            self._publisher.linger()

    async def offer(self, event: Any) -> None:
        """As `send`; what can't travel is logged."""
        try:
            await self.send(event)
        except InvalidRecord as error:
            self._left_out(error)

    async def send_bytes(self, chunk: bytes | str) -> None:
        """Publish the events that a chunk of SSE or JSON lines completes; those that are none are logged."""
        if self._decoder is None:
            self._decoder = decoder_for(DIALECTS[self._batch.identity["dialect"]], MAX_BYTES)
        for framed in self._decoder.feed(chunk.encode() if isinstance(chunk, str) else chunk):
            await self._take(framed)

    def tee(self, events: AsyncIterable[Event] | Iterable[Event]) -> AsyncGenerator[Event]:
        """Each event, unchanged, after it was published. One that can't travel is logged and passed on all the same.

        A consumer that stops early leaves the run aborted, also where nothing is raised.
        """
        return self._pass_on(events, self.offer)

    def tee_bytes(self, chunks: AsyncIterable[Chunk] | Iterable[Chunk]) -> AsyncGenerator[Chunk]:
        """Each chunk of SSE or JSON lines, unchanged, after what it completes was published; else as `tee`."""
        return self._pass_on(chunks, self.send_bytes)

    async def _pass_on(
        self, items: AsyncIterable[Event] | Iterable[Event], publish: Callable[[Any], Awaitable[None]]
    ) -> AsyncGenerator[Event]:
        self.verdict = "aborted"
        try:
            async with aclosing(_each(items)) as each:
                async for item in each:
                    await publish(item)
                    yield item
        except Exception:
            self.verdict = "error"
            raise
        self.verdict = "complete"

    async def end(self, end: str = "complete", *, at: int | None = None) -> None:
        """Say how the run ended: complete, aborted, error or disconnected; `at` is epoch ms where it is not now.

        Once; the context then adds nothing.
        """
        if end not in ENDS:
            raise CallerError(f"a run ends as one of {', '.join(sorted(ENDS))}, not {end!r:.80}")
        if self._over:
            raise CallerError(f"run {self.run_id} is over already")
        for framed in self._decoder.close() if self._decoder else ():
            await self._take(framed)
        self._over = True
        self._publisher.forget(self)
        self._put(self._batch.take(end, at=_now() if at is None else at))

    def flush(self) -> None:
        """Let what waits go now."""
        if len(self._batch):
            self._put(self._batch.take(at=_now()))

    def leave(self) -> None:
        """Let what waits go, and say nothing of an end: the run goes on from elsewhere."""
        self.flush()
        self._over = True
        self._publisher.forget(self)

    def _put(self, record: bytes) -> None:
        self.records += 1
        self._publisher.delivery.put(self._key, record, self._headers)

    async def _take(self, framed: Framed) -> None:
        if framed.error is None:
            await self.offer(framed.event)
        else:
            self._left_out(framed.error)

    def _left_out(self, error: InvalidRecord) -> None:
        log.warning("run %s: an event was not published: %s", self.run_id, error, extra=self.log_extra)


async def _each(source: AsyncIterable[Event] | Iterable[Event]) -> AsyncGenerator[Event]:
    """The items of anything that can be iterated; what is a context as well is entered (as Pydantic AI 2's streams)."""
    if isinstance(source, AbstractAsyncContextManager):
        async with source as entered:
            async for item in entered:
                yield item
    elif isinstance(source, AsyncIterable):
        async for item in source:
            yield item
    else:
        for item in source:
            yield item


async def _given(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    return producer


def _now() -> int:
    return time.time_ns() // 1_000_000
