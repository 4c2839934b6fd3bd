"""Runs whose events come from a framework, in any of its threads: queued, and published in the publisher's loop.

    run = runtime().run(thread_id="chat-42", agent_id="weather", dialect="langgraph")
    run.send(event)
    run.end("complete")

Neither waits nor raises, since failures here must not affect the program: they are logged, and the run does not end as
complete.
"""

from __future__ import annotations

import logging
from typing import Any, Final, Self
from uuid import uuid4

import orjson

from turnmill.capture.passing import Note, OwnFailures, Passing, QueueReader
from turnmill.control.stopping import Stop
from turnmill.errors import InvalidRecord
from turnmill.limits import CAPTURE_QUEUE_BYTES
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun
from turnmill.wire.envelope import ENDS
from turnmill.wire.registry import WIRES, Wire
from turnmill.wire.sdk_objects import LEFT_OUT
from turnmill.wire.traceparent import current

END_TIMEOUT: Final = 2.0  # seconds for publishing queued events at the end
LACKING: Final = "error"  # the end of a run that lacks events, so that it is never shown as complete

log = logging.getLogger("turnmill.publish.publisher")


class PassingRun:
    """One run that is being published. After its end it accepts nothing more.

    `stop`: receives a command to stop; None if no commands are received.
    """

    __slots__ = ("_passing", "_wire", "ended", "lacking", "run_id", "stop", "thread_id")

    def __init__(self, passing: Passing[PassingRun] | None, identity: dict[str, Any], stop: Stop | None = None) -> None:
        self.stop = stop
        self.thread_id, self.run_id = str(identity.get("thread_id")), str(identity.get("run_id"))
        self._wire: Wire | None = WIRES.get(identity.get("dialect", ""))
        self._passing = passing
        self.lacking = False  # some of its events could not be published
        self.ended = passing is None or not passing.put(self, "begin", (identity,), _size(identity.get("info")))

    def send(self, event: Any) -> None:
        """Publish an event, a dict or an object of the SDK, in its present state: it may change later."""
        if self.ended or self._passing is None:
            return
        try:
            travels = event if self._wire is None else self._wire.event_of(event)
            if travels is LEFT_OUT:
                return
            if not self._passing.put(self, "event", (travels,), _size(travels)) and not self.lacking:
                self.lacking = True
                log.warning("run %s: the publisher does not keep up: the run lacks events", self.run_id)
        except Exception as error:  # no failure here may affect the program
            self.lacking = True
            log.warning("run %s: an event was not published: %s", self.run_id, error)

    def heard(self) -> None:
        """Publish that the program follows the command to stop; the run's end comes after this."""
        if not self.ended and self._passing is not None:
            self._passing.put(self, "heard", (), 0, always=True)

    def stopped(self) -> None:
        """Publish that the program follows the command to stop, and end the run."""
        self.heard()
        self.end("aborted")

    def end(self, end: str = "complete") -> None:
        """End the run as complete, aborted, error or disconnected. Only the first call counts."""
        if not self.ended and self._passing is not None:
            self.ended = True
            self._passing.put(self, "end", (end if end in ENDS else LACKING,), 0, always=True)


def _size(value: Any) -> int:
    """Return the approximate size of a value as JSON in bytes; a value that is not JSON is refused later."""
    if value is None:
        return 0
    try:
        return len(orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:
        return 1_000


class Runs(QueueReader[PassingRun]):
    """The runs of a process, published inside of `async with`, in the loop of the open publisher."""

    def __init__(self, publisher: Publisher, *, queue_bytes: int = CAPTURE_QUEUE_BYTES) -> None:
        super().__init__(queue_bytes)
        self._publisher = publisher
        self._open: dict[PassingRun, PublishedRun] = {}
        self._log = OwnFailures(log)

    def begin(self, **identity: Any) -> PassingRun:
        """Begin a run; the arguments are those of Publisher.run."""
        identity["run_id"] = identity.get("run_id") or str(uuid4())
        identity.setdefault("traceparent", current())  # of the caller's thread
        return PassingRun(self._passing, identity, Stop() if self._publisher.hears else None)

    async def __aenter__(self) -> Self:
        self.start("runs")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Publish queued events, for at most END_TIMEOUT; open runs end as aborted, since their program ends."""
        if not await self.read_last(END_TIMEOUT):
            log.warning("%d events were not published within %.0f s, and are lost", len(self._passing), END_TIMEOUT)
        await self.stop()
        for run in self._open.values():
            try:
                await run.end("aborted")
            except Exception:  # the other runs must end, too
                self._log("the end of a run is not published")
        self._open.clear()

    async def _happened(self, note: Note[PassingRun]) -> None:
        try:
            await self._publish(note)
        except InvalidRecord as error:
            note.call.lacking = True
            log.warning("run %s: an event was not published: %s", note.call.run_id, error)
        except Exception:
            self._open.pop(note.call, None)
            self._log("the rest of a run is not published")

    async def _publish(self, note: Note[PassingRun]) -> None:
        match note.what, *note.value:
            case ["begin", identity]:
                opened = self._open[note.call] = self._publisher.run(**identity)
                if note.call.stop is not None:
                    opened.stopped.then(note.call.stop.tell)
            case [_, *_] if note.call not in self._open:
                pass  # its beginning could not be published
            case ["event", event]:
                await self._open[note.call].send(event, at=note.at)
            case ["heard"]:
                await self._open[note.call].acknowledge()
            case ["end", end]:
                lacks = note.call.lacking and end == "complete"
                await self._open.pop(note.call).end(LACKING if lacks else end, at=note.at)
