"""The publisher for programs without an event loop: it runs a separate loop in a thread.

    with SyncPublisher() as publisher, publisher.run(thread_id=…, agent_id=…, dialect="vercel-ai") as run:
        for event in run.tee(events):
            ...

All methods may be called from any thread, but those of a run only by a single thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from turnmill.control.claims import Answer
from turnmill.control.steering import Steer
from turnmill.control.stopping import RunStopped
from turnmill.errors import CallerError
from turnmill.loop_thread import LoopThread
from turnmill.publish.counts import Report
from turnmill.publish.publisher import FLUSH_TIMEOUT, Publisher
from turnmill.publish.run import PublishedRun
from turnmill.wire.traceparent import current

if TYPE_CHECKING:  # it loads pydantic
    from turnmill.settings import ClientSettings

Item = TypeVar("Item")
Result = TypeVar("Result")


class SyncPublisher:
    """A `Publisher` for programs without an event loop, with the same arguments and errors."""

    def __init__(self, settings: ClientSettings | None = None, *, spool: bool = True) -> None:
        self._publisher = Publisher(settings, spool=spool)
        self._loop: LoopThread | None = None

    def __enter__(self) -> Self:
        self._loop = LoopThread("turnmill-publisher")
        try:
            self.wait_for(self._publisher.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            self.wait_for(self._publisher.__aexit__(kind, error, None))
        finally:
            self._stop()

    def run(self, **identity: Any) -> SyncRun:
        """Return a run; the arguments are those of Publisher.run."""
        identity.setdefault("traceparent", current())  # of the caller's thread

        async def made() -> PublishedRun:
            return self._publisher.run(**identity)

        return SyncRun(self, self.wait_for(made()))

    def flush(self, within: float = FLUSH_TIMEOUT) -> None:
        """Wait until all records sent so far are confirmed. Raises BrokerError after `within` seconds."""
        self.wait_for(self._publisher.flush(within))

    def report(self) -> Report:
        """Return the numbers of records by place."""
        return self._publisher.report()

    def wait_for(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of a coroutine that runs in the publisher's loop. Raises CallerError outside of `with`."""
        if self._loop is None:
            call.close()
            raise CallerError("the publisher is closed: use it inside `with SyncPublisher()`")
        return self._loop.wait_for(call)

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()


class SyncRun:
    """A `PublishedRun` without an event loop. Leaving its context ends it as complete, aborted or error."""

    def __init__(self, publisher: SyncPublisher, run: PublishedRun) -> None:
        self._publisher = publisher
        self._run = run
        self.thread_id, self.run_id = run.thread_id, run.run_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._publisher.wait_for(self._run.__aexit__(kind, error, None))

    def send(self, event: Any, *, at: int | None = None) -> None:
        """Publish an event."""
        self._publisher.wait_for(self._run.send(event, at=at))

    def send_bytes(self, chunk: bytes | str) -> None:
        """Publish the events that a chunk of SSE or JSON lines completes."""
        self._publisher.wait_for(self._run.send_bytes(chunk))

    @property
    def stopped(self) -> bool:
        """True once the run was told to stop."""
        return bool(self._run.stopped)

    def acknowledge(self, answer: Answer | None = None) -> None:
        """Publish that the program acts upon an answer, by default upon the command to stop."""
        self._publisher.wait_for(self._run.acknowledge(answer))

    def steered(self) -> list[Steer]:
        """Return the messages that users sent to the run since the last call, and publish that they are taken up."""
        return self._publisher.wait_for(self._run.steered())

    def answered(self, own_id: str) -> Answer:
        """Wait for a person's answer to a question of this run, and publish that it is taken up."""
        return self._publisher.wait_for(self._run.answered(own_id))

    def end(self, end: str = "complete", *, at: int | None = None) -> None:
        """End the run as complete, aborted, error or disconnected."""
        self._publisher.wait_for(self._run.end(end, at=at))

    def tee(self, events: Iterable[Item]) -> Iterator[Item]:
        """Yield each event unchanged after publishing it."""
        return self._pass_on(events, self._run.offer)

    def tee_bytes(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield each chunk unchanged after publishing the events that it completes."""
        return self._pass_on(chunks, self._run.send_bytes)

    def _pass_on(self, items: Iterable[Item], publish: Callable[[Any], Coroutine[Any, Any, None]]) -> Iterator[Item]:
        """Iterate in the caller's thread, since the iterator may block, and publish in the publisher's loop."""
        self._run.verdict = "aborted"
        try:
            for item in items:
                if (stopped := self._run.stopped.error) is not None:
                    raise stopped
                self._publisher.wait_for(publish(item))
                yield item
        except RunStopped:
            if callable(close := getattr(items, "close", None)):
                with suppress(Exception):  # the run is stopped in any case
                    close()
            self._publisher.wait_for(self._run.acknowledge())
            raise
        except Exception:
            self._run.verdict = "error"
            raise
        self._run.verdict = "complete"
