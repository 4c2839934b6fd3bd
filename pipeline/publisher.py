"""Publishing runs from an agent worker: one object for the process, one context for each run.

    async with Publisher(settings) as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

A run's events are numbered, dated, packed into records for at most 20 ms, and sent by an idempotent producer. What is
not confirmed yet is bounded in bytes: beyond that, `send` waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pydantic import ValidationError

from pipeline.delivery import Counts, Delivery, connected
from pipeline.dialects import DIALECTS
from pipeline.errors import BrokerError, CallerError, InvalidRecord
from pipeline.settings import Settings
from topics.agent_event import ENDS, RunInfo
from topics.catalog import EVENTS
from topics.identity import thread_uuid
from topics.micro_batch import MicroBatch

LINGER = 0.02  # seconds that an event waits for the next ones of its run
FLUSH_WITHIN = 30.0  # seconds, on exit

log = logging.getLogger(__name__)


class Publisher:
    """The connection to the broker that all runs of a process share. Raises BrokerError where it can't be made."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = EVENTS.full_name(settings.topic_prefix)
        self._delivery: Delivery | None = None
        self._runs: set[PublishedRun] = set()
        self.counts = Counts()

    async def __aenter__(self) -> Self:
        self._delivery = Delivery(
            await connected(self._settings, self._topic), self._topic, self._settings.brokers, self.counts
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        for run in self._runs:
            run.flush()
        delivery, self._delivery = self.delivery, None
        left = await delivery.close(FLUSH_WITHIN)
        if not left:
            return
        message = (
            f"{self._settings.brokers} has not confirmed {left} record{'' if left == 1 else 's'}, which may be lost "
            f"({delivery.failure or f'no answer for {FLUSH_WITHIN:.0f} s'}): `threadmill doctor` says what is wrong"
        )
        if error is not None:
            log.error(message)
        else:
            raise BrokerError(message)

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
    ) -> PublishedRun:
        """One run; `run_id` is a new UUID where it is not given, `max_events` bounds its records beside their size.

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
        uuid, external_id = thread_uuid(thread_id)
        identity = {"thread_id": uuid, "run_id": run_id or str(uuid4()), "agent_id": agent_id, "dialect": dialect}
        if tenant:
            identity["tenant"] = tenant
        facts = known.model_dump(exclude_none=True)
        if external_id:
            facts.setdefault("external_id", external_id)
        run = PublishedRun(self, MicroBatch(identity, facts, max_events=max_events))
        self._runs.add(run)
        self.counts.runs += 1
        return run

    async def put(self, key: bytes, value: bytes) -> None:
        """Publish a finished envelope as it is (the caller has checked it); waits while too much is unconfirmed."""
        await self.delivery.room()
        self.delivery.put(key, value)

    async def flush(self, within: float = FLUSH_WITHIN) -> None:
        """Return when all that was sent so far is confirmed. Raises BrokerError after `within` seconds."""
        for run in self._runs:
            run.flush()
        if await self.delivery.drained(within):
            raise BrokerError(f"{self._settings.brokers} did not confirm all records within {within:.0f} s")

    @property
    def delivery(self) -> Delivery:
        """The records on their way. Raises CallerError outside of `async with`."""
        if self._delivery is None:
            raise CallerError("the publisher is closed: use it inside `async with Publisher(settings)`")
        return self._delivery

    def forget(self, run: PublishedRun) -> None:
        """A run is over."""
        self._runs.discard(run)


class PublishedRun:
    """One run on its way out. Leaving its context ends it: complete; aborted when cancelled; error on an exception."""

    def __init__(self, publisher: Publisher, batch: MicroBatch) -> None:
        self._publisher = publisher
        self._batch = batch
        self._key = batch.identity["thread_id"].encode()
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self._verdict = "complete"  # of a context that is left without an exception

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
            await self.end(self._verdict)
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
            await self.end("aborted")
        else:
            await self.end("error")

    async def send(self, event: dict[str, Any], *, at: int | None = None) -> None:
        """Publish one event; `at` is epoch ms where it is not now. Waits only while too much is unconfirmed.

        Raises InvalidRecord for an event that can't travel (no JSON, over 900 KB): it is left out, the run goes on.
        Raises BrokerError where the broker refuses what was sent.
        """
        if self._over:
            raise CallerError(f"run {self.run_id} is over: nothing can be sent after its end")
        delivery = self._publisher.delivery
        await delivery.room()
        for record in self._batch.add(event, _now() if at is None else at):
            delivery.put(self._key, record)
        self._publisher.counts.events += 1
        if len(self._batch) and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER, self.flush)

    async def tee(self, events: AsyncIterable[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Each event, unchanged, after it was published. One that can't travel is logged and passed on all the same.

        A consumer that stops early leaves the run aborted, also where nothing is raised.
        """
        self._verdict = "aborted"
        try:
            async for event in events:
                try:
                    await self.send(event)
                except InvalidRecord as error:
                    log.warning("run %s: an event was not published: %s", self.run_id, error)
                yield event
        except Exception:
            self._verdict = "error"
            raise
        self._verdict = "complete"

    async def end(self, end: str = "complete", *, at: int | None = None) -> None:
        """Say how the run ended: complete, aborted, error or disconnected; `at` is epoch ms where it is not now.

        Once; the context then adds nothing.
        """
        if end not in ENDS:
            raise CallerError(f"a run ends as one of {', '.join(sorted(ENDS))}, not {end!r:.80}")
        if self._over:
            raise CallerError(f"run {self.run_id} is over already")
        self._stop_timer()
        self._over = True
        self._publisher.forget(self)
        self._publisher.delivery.put(self._key, self._batch.take(end, at=_now() if at is None else at))

    def flush(self) -> None:
        """Let what waits go now."""
        self._stop_timer()
        if len(self._batch):
            self._publisher.delivery.put(self._key, self._batch.take(at=_now()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _now() -> int:
    return time.time_ns() // 1_000_000
