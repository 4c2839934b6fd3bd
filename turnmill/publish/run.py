"""A run that is being published: events are numbered, dated, packed into records, and passed to the delivery."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from turnmill.clock import now_ms
from turnmill.control.claims import Answer, answer_of
from turnmill.control.record import ANSWER, EVENT, STEER, Command
from turnmill.control.steering import Inbox, Steer
from turnmill.control.stopping import RunStopped, Stopping, closed
from turnmill.errors import CallerError, InvalidRecord
from turnmill.limits import RECORD_BYTES
from turnmill.publish.counts import Counts
from turnmill.publish.micro_batch import MicroBatch
from turnmill.wire import traceparent as w3c
from turnmill.wire.envelope import ENDS, Headers
from turnmill.wire.framing import Decoder, Framed, decoder_for
from turnmill.wire.registry import Wire
from turnmill.wire.sdk_objects import LEFT_OUT
from turnmill.wire.traceparent import TraceParent, log_ids

if TYPE_CHECKING:  # it loads aiokafka
    from turnmill.publish.delivery import Delivery

Event = TypeVar("Event")
Chunk = TypeVar("Chunk", bytes, str)
Parent = tuple[str | None, str]  # (thread, run) of the run that started this one; None: the same thread

# Turns of the event loop after each item of a synchronous stream. Reading what came from a broker takes it about eight.
BLOCKED_SECONDS: Final = 0.005  # if the source has blocked the loop for as long, something may have come
LOOP_TURNS: Final = 10

log = logging.getLogger("turnmill.publish.publisher")


class Owner(Protocol):
    """The interface of the publisher that a run needs."""

    counts: Counts

    @property
    def delivery(self) -> Delivery: ...
    def linger(self) -> None: ...
    def forget(self, run: PublishedRun) -> None: ...


class PublishedRun:
    """A run being published. Leaving its context ends it: complete; aborted if cancelled; error on an exception."""

    def __init__(
        self,
        publisher: Owner,
        wire: Wire,
        batch: MicroBatch,
        span: TraceParent | None,
        *,
        steers: bool = False,
        parent: Parent | None = None,
    ) -> None:
        self._publisher = publisher
        self._wire = wire
        self._batch = batch
        self.thread_id: str = batch.identity["thread_id"]  # its UUID; over HTTP the name that the caller gave it
        self.run_id: str = batch.identity["run_id"]
        self.dialect: str = batch.identity["dialect"]
        self.tenant: str | None = batch.identity.get("tenant")
        self._key = self.thread_id.encode()
        self.log_extra = log_ids(self.thread_id, self.run_id, span and span.text)  # for log lines about this run
        self._headers = None if span is None else w3c.headers(span.text)
        self._decoder: Decoder | None = None
        self._over = False
        self.stopped = Stopping()  # true once a command has told it to stop
        self.parent = parent
        self._inbox = Inbox(takes_messages=steers)
        self._hears = False
        self._acknowledged: Command | None = None  # the newest acknowledged command to stop
        self.records = 0
        self.verdict = "complete"  # how the run ends when its context is left without an exception

    def tell(self, headers: Headers) -> None:
        """Add headers to the run's records from now on, each name once. Records that were in the spool lose them."""
        names = [name for name, _ in headers]
        self._headers = [*(pair for pair in self._headers or () if pair[0] not in names), *headers]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._over:
            return
        if error is None:
            await self.end(self.verdict)
        elif isinstance(error, RunStopped):
            await self.acknowledge()
            await self.end("aborted")
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
            await self.end("aborted")
        else:
            await self.end("error")

    async def send(self, event: Any, *, at: int | None = None) -> None:
        """Publish an event, a dict or an object of the SDK; `at` is epoch ms, by default now.

        Waits only if there is room neither in memory nor on disk. Raises InvalidRecord for an event that can't be sent
        (not JSON, over 900 KB): it is left out, and the run goes on. Raises BrokerError if the broker refuses records
        and there is no spool.
        """
        event = self._wire.event_of(event)
        if event is not LEFT_OUT:
            await self._add(event, at)

    async def _add(self, event: Any, at: int | None = None) -> None:
        """Publish an event in its published form."""
        await self._publisher.delivery.room()
        if self._over:  # it may have ended during the wait
            raise CallerError(f"run {self.run_id} is over: nothing can be sent after its end")
        self._batched(event, now_ms() if at is None else at)
        if len(self._batch):
            self._publisher.linger()

    def _batched(self, event: Any, at: int) -> None:
        for record in self._batch.add(event, at):
            self._put(record)
        self._publisher.counts.events += 1

    def hear(self) -> None:
        """Make `tee` end when the run is told to stop."""
        self._hears = True

    async def acknowledge(self, answer: Answer | None = None) -> None:
        """Publish that the program acts upon an answer, or by default upon the command to stop (only once)."""
        command = self.stopped.command
        if answer is not None:
            asked = answer.asked.get("tool_call_id") or answer.asked.get("id")
            fields = {"kind": ANSWER, "answer_id": answer.answer_id, "asked": asked, "value": answer.value}
            self._say(answer.command_id, answer.by, "acknowledged", **fields)
        elif command is not None and command is not self._acknowledged:
            self._acknowledged = command
            self._say(command.id, command.by, "acknowledged")

    async def steered(self) -> list[Steer]:
        """Return the messages that users sent to the run since the last call, and publish that they are taken up.

        Call it between tools. Messages that the program never takes are not part of the conversation. The run must be
        made with `steers`.
        """
        taken = self._inbox.messages()
        for message in taken:
            self._say(message.id, message.by, "acknowledged", kind=STEER, text=message.payload["text"])
        return [Steer(message.payload["text"], message.by, message.id) for message in taken]

    async def answered(self, own_id: str) -> Answer:
        """Wait for a person's answer to a question of this run, and publish that it is taken up.

        `own_id`: the id that the wire gives the call or the interrupt. While the run goes on, the question is answered
        by its `answer_id`, which is `turnmill.answer_id(run.run_id, own_id)`.
        """
        if not self._hears:
            raise CallerError("nothing is heard from elsewhere: TURNMILL_CONTROL is off")
        answer = answer_of(await self._inbox.answer(self.run_id, own_id))
        await self.acknowledge(answer)
        return answer

    def on_command(self, command: Command) -> None:
        """Take a command with a message or an answer; publish it as refused if it can't be taken."""
        if (refused := self._inbox.put(command)) is not None:
            self._say(command.id, command.by, "refused", kind=command.kind, reason=refused)

    def _say(self, command_id: str, by: str, state: str, **more: Any) -> None:
        """Publish the new state of a command, without an await, so that nothing is published after the run's end."""
        if not self._over:
            self._batched({self._wire.kind: EVENT, "id": command_id, "state": state, "by": by, **more}, now_ms())
            self.flush()

    async def offer(self, event: Any) -> None:
        """Publish an event like `send`, but log an event that can't be sent instead of raising."""
        try:
            await self.send(event)
        except InvalidRecord as error:
            self._left_out(error)

    async def send_bytes(self, chunk: bytes | str) -> None:
        """Publish the events that a chunk of SSE or JSON lines completes; log data that is not an event."""
        if self._decoder is None:
            self._decoder = decoder_for(self._wire, RECORD_BYTES)
        for framed in self._decoder.feed(chunk.encode() if isinstance(chunk, str) else chunk):
            await self._take(framed)

    def tee(self, events: AsyncIterable[Event] | Iterable[Event]) -> AsyncGenerator[Event]:
        """Yield each event unchanged after publishing it. An event that can't be sent is logged and still yielded.

        If the consumer stops early, the run ends as aborted, even without an exception.
        """
        return self._pass_on(events, self.offer)

    def tee_bytes(self, chunks: AsyncIterable[Chunk] | Iterable[Chunk]) -> AsyncGenerator[Chunk]:
        """Yield each chunk of SSE or JSON lines unchanged after publishing the events in it; otherwise like `tee`."""
        return self._pass_on(chunks, self.send_bytes)

    async def _pass_on(
        self, items: AsyncIterable[Event] | Iterable[Event], publish: Callable[[Any], Awaitable[None]]
    ) -> AsyncGenerator[Event]:
        self.verdict = "aborted"
        try:
            async with aclosing(_each(items)) as each:
                async for item in self.stopped.each(each) if self._hears else each:
                    await publish(item)
                    yield item
        except RunStopped:
            await closed(items)
            await self.acknowledge()
            raise
        except Exception:
            self.verdict = "error"
            raise
        self.verdict = "complete"

    async def end(self, end: str = "complete", *, at: int | None = None) -> None:
        """End the run as complete, aborted, error or disconnected; `at` is epoch ms, by default now.

        Only the first call counts; leaving the context then adds nothing.
        """
        if end not in ENDS:
            raise CallerError(f"a run ends as one of {', '.join(sorted(ENDS))}, not {end!r:.80}")
        if self._over:
            raise CallerError(f"run {self.run_id} is over already")
        for framed in self._decoder.close() if self._decoder else ():
            await self._take(framed)
        self._over = True
        self._publisher.forget(self)
        self._put(self._batch.take(end, at=now_ms() if at is None else at))

    def flush(self) -> None:
        """Give the waiting events to the delivery now, without waiting for more."""
        if len(self._batch):
            self._put(self._batch.take(at=now_ms()))

    def leave(self) -> None:
        """Flush and take no more events, but publish no end, since another process continues the run."""
        self.flush()
        self._over = True
        self._publisher.forget(self)

    def _put(self, record: bytes) -> None:
        self.records += 1
        self._publisher.delivery.put(self._key, record, self._headers)

    async def _take(self, framed: Framed) -> None:
        if framed.error is not None:
            self._left_out(framed.error)
            return
        try:
            await self._add(framed.event)
        except InvalidRecord as error:
            self._left_out(error)

    def _left_out(self, error: InvalidRecord) -> None:
        log.warning("run %s: an event was not published: %s", self.run_id, error, extra=self.log_extra)


async def _each(source: AsyncIterable[Event] | Iterable[Event]) -> AsyncGenerator[Event]:
    """Yield the items of an iterable; enter it first if it is a context manager (such as streams of Pydantic AI 2)."""
    if isinstance(source, AbstractAsyncContextManager):
        async with source as entered:
            async for item in entered:
                yield item
    elif isinstance(source, AsyncIterable):
        async for item in source:
            yield item
    else:
        ran = time.monotonic()  # the event loop, last
        for item in source:
            turns = 1 if time.monotonic() - ran < BLOCKED_SECONDS else LOOP_TURNS
            yield item
            for _ in range(turns):  # without them the loop would send and receive nothing before the end
                await asyncio.sleep(0)
            ran = time.monotonic()
