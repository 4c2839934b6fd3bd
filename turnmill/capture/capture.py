"""Capture the calls of a process: their data is queued, read in the publisher's loop, and published as runs.

    async with Publisher() as publisher, Capture(publisher, agent_id="weather") as capture:
        call = capture.begin(Call("openai", "openai-chat", "/v1/chat/completions", headers, body))
        call.answered(200, headers)
        call.data(chunk)
        call.finished()

`begin` and the methods of a call may be called from any thread. They neither wait nor raise: they append to a queue of
at most 32 MB. Data for which it has no room is left out of the run, which records that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from turnmill.capture.conversations import Asked, CallPlace, Conversations, headers_of_fact
from turnmill.capture.exchange import Exchange, Verdict
from turnmill.capture.passing import Call, CapturedCall, Note, OwnFailures, QueueReader
from turnmill.capture.reading import Reading, read
from turnmill.clock import now_ms
from turnmill.control.record import Command
from turnmill.control.stopping import Stop
from turnmill.errors import InvalidRecord, TurnmillError
from turnmill.limits import CAPTURE_QUEUE_BYTES
from turnmill.pools import RETRIED, STOPPED
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun
from turnmill.remembered import Remembered
from turnmill.wire.registry import WIRES
from turnmill.wire.traceparent import current

if TYPE_CHECKING:  # only loaded if calls can be stopped
    from turnmill.control.receiver import Control

__all__ = ["Call", "Capture", "CapturedCall"]

FAILED_RUN_BYTES: Final = 3_000  # of memory, of a run whose call failed
CALL_SECONDS: Final = 0.005  # seconds for which a call may block the publisher's loop
RETRY_WINDOW_MS: Final = 2_000  # within it, an equal request after a stop is another attempt, and stopped, too

EVENTS: Final[dict[str, Callable[..., Iterable[dict[str, Any]]]]] = {  # what happened to a call -> the events of it
    "answered": Exchange.answered,
    "data": Exchange.data,
    "gap": Exchange.gap,
    "finished": Exchange.finished,
    "failed": Exchange.failed,
    "cancelled": Exchange.cancelled,
    "stopped": Exchange.cancelled,
}

log = logging.getLogger("turnmill.capture")


@dataclass(frozen=True, slots=True)
class _CallState:
    """The state of a call; only the capture's loop reads it. `same`: the result of `_same`."""

    exchange: Exchange
    asked: Asked
    same: object
    position: CallPlace
    run: PublishedRun


@dataclass(frozen=True, slots=True)
class _FailedRun:
    """A run whose call failed; the client may retry it until the timer fires. `scope`, `attempt`: as in Asked."""

    run: PublishedRun
    scope: str
    position: CallPlace
    attempt: object
    end: str
    timer: asyncio.TimerHandle


def _same(call: Call, reading: Reading) -> object:
    """Return a key that is equal if a client asks the same again, even by a different request.

    For example, when a stream breaks off, Claude Code asks again without streaming.
    """
    return call.client, call.dialect, tuple(reading.messages) or reading.digest


class Capture(QueueReader[CapturedCall]):
    """The capture of a process, or of a gateway. It publishes inside of `async with`; calls that begin earlier wait.

    `tenant`: the default for calls. `queue_bytes`: most bytes that wait to be read. `shared`: publish in headers how
    other processes can recognize the conversation (`headers_of_fact`). `control`: receives the commands
    to captured calls, for a publisher that also has runs which this process must not stop.
    """

    def __init__(
        self,
        publisher: Publisher,
        conversations: Conversations | None = None,
        *,
        agent_id: str,
        tenant: str | None = None,
        queue_bytes: int = CAPTURE_QUEUE_BYTES,
        shared: bool = False,
        control: Control | None = None,
    ) -> None:
        super().__init__(queue_bytes)
        self._publisher = publisher
        self._conversations = conversations or Conversations()
        self._agent_id = agent_id
        self._tenant = tenant
        self._shared = shared
        self._control = control
        self._is_full = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[CapturedCall, _CallState] = {}
        self._held: Remembered[tuple[str, str], _FailedRun] = Remembered(RETRIED, lambda _: FAILED_RUN_BYTES)
        # By `_same`: the command, and until when (epoch ms).
        self._stopped: Remembered[object, tuple[Command, int]] = Remembered(STOPPED)
        self._log = OwnFailures(log)

    async def __aenter__(self) -> Self:
        """Start capturing; the publisher is open."""
        self._loop = asyncio.get_running_loop()
        self.start("capture")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, within: float = 2.0) -> None:
        """Publish queued data, for at most `within` seconds, and end all open runs: calls in progress as aborted."""
        if not await self.read_last(within):
            log.warning(
                "%d pieces of model calls were not read within %.0f s, and are lost", len(self._passing), within
            )
        if self._control is not None:
            await self._control.close()
        await self.stop()
        await self._give_up(self._held.shrink(0))
        for call in list(self._open):
            await self._over(call, Verdict("aborted"))
        self._loop = None

    def begin(self, call: Call, reading: Reading | None = None, *, tenant: str | None = None) -> CapturedCall:
        """Begin the capture of an outgoing request. Never raises.

        `reading`: of its body, if it was read already. A call whose wire is unknown is not published.
        """
        stop = Stop() if self._publisher.hears or self._control is not None else None
        captured = CapturedCall(self._passing, tenant, call.dialect, stop)
        of = tenant if tenant is not None else self._tenant
        try:
            if call.dialect in WIRES and not self._is_stopped(call, reading, stop):
                given = call, reading, of, current()
                captured.ended = not self._passing.put(captured, "begin", given, len(call.body), tenant)
        except Exception:
            self._log("a model call is not captured")
        if captured.ended and not self._is_full:
            log.warning("model calls are not captured: the publisher does not keep up with them")
        self._is_full = captured.ended
        return captured

    def _is_stopped(self, call: Call, reading: Reading | None, stop: Stop | None) -> bool:
        """Return True for another attempt of a stopped call, which is stopped before it is sent."""
        if not self._stopped or stop is None:
            return False
        command, until = self._stopped.pop("", _same(call, reading or read(call))) or (None, 0)
        if command is None or now_ms() >= until:
            return False
        stop.tell_now(command)
        return True

    async def _happened(self, note: Note[CapturedCall]) -> None:
        try:
            if note.what == "begin":
                await self._begin(note.call, note.at, *note.value)
            elif note.what == "given up":
                await self._given_up(*note.value)
            elif (state := self._open.get(note.call)) is not None:
                await self._publish(note, state)
        except Exception:
            self._log("the rest of a model call is not captured")
            await self._over(note.call, Verdict("error"))

    async def _publish(self, note: Note[CapturedCall], state: _CallState) -> None:
        """Publish the events of what happened to an open call, and end its run if the call has ended."""
        exchange, what = state.exchange, note.what
        events = EVENTS[what](exchange, *note.value)
        was_over = exchange.is_over
        began = time.monotonic()
        for event in events:
            await self._send(state.run, event, note.at)
            if time.monotonic() - began > CALL_SECONDS:  # a small chunk may have many
                await asyncio.sleep(0)
                began = time.monotonic()
        if exchange.is_over and not was_over:  # the next request may come before the connection ends
            self._remember(state)
        if what == "stopped":
            await self._was_stopped(note, state)
        elif what in ("finished", "failed", "cancelled"):
            await self._ended(note.call, state, exchange.verdict(what))

    async def _begin(
        self, call: CapturedCall, at: int, request: Call, reading: Reading | None, tenant: str | None, span: str | None
    ) -> None:
        reading = reading or read(request)
        exchange, names = reading.exchange, reading.names
        scope = tenant or ""
        attempt = (request.client, request.dialect, reading.digest)
        asked = Asked(scope, reading.messages, names, attempt, request.client)
        same = _same(request, reading)
        command, until = self._stopped.get("", same) or (None, 0)
        if command is not None and at < until and call.stop is not None:  # sent before we knew of the stop
            call.stop.tell_now(command)
            return
        position = self._conversations.place(asked, str(uuid4()))
        held = self._held.pop(scope, (position.thread, position.run)) if position.again else None
        if held is not None:
            held.timer.cancel()
            run = held.run
        else:
            run = self._run(request, tenant, position, reading, span)
        call.thread_id, call.run_id = run.thread_id, position.run
        self._open[call] = _CallState(exchange, asked, same, position, run)
        if call.stop is not None:
            run.stopped.then(call.stop.tell_now)
        if self._control is not None:
            self._control.begun(run)
        for event in exchange.asked(self._conversations.left_out(asked)):
            await self._send(run, event, at)

    def _run(
        self, request: Call, tenant: str | None, position: CallPlace, reading: Reading, span: str | None
    ) -> PublishedRun:
        names = reading.names
        facts = {
            "model_name": next(iter(reading.models), None),
            "provider_name": request.provider,
            "continues": position.continues,
            "replaces": position.replaces,
            "parent_run_id": names.parent_run,
            "parent_thread_id": names.parent_thread,
            **names.labels,
        }
        return self._publisher.run(
            thread_id=position.thread,
            agent_id=names.agent or self._agent_id,
            dialect=request.dialect,
            run_id=position.run,
            tenant=tenant,
            info={name: value for name, value in facts.items() if value is not None},
            traceparent=span,
        )

    async def _was_stopped(self, note: Note[CapturedCall], state: _CallState) -> None:
        """End a call that was told to stop. Acknowledge the command, unless the model had ended its answer before."""
        verdict, command = state.exchange.verdict("cancelled"), state.run.stopped.command
        if verdict.end == "aborted" and command is not None:
            self._stopped.shed(lambda known: known[1] <= note.at)
            self._stopped.put("", state.same, (command, note.at + RETRY_WINDOW_MS))
            await state.run.acknowledge()
        self._remember(state)
        await self._over(note.call, verdict)

    async def _ended(self, call: CapturedCall, state: _CallState, verdict: Verdict) -> None:
        """End a call. If the client may retry it, its run is kept open, so that all attempts are one run."""
        self._remember(state)
        if verdict.again_within <= 0 or self._loop is None:
            await self._over(call, verdict)
            return
        del self._open[call]
        scope, key = state.asked.scope, (state.position.thread, state.position.run)
        self._conversations.failed(state.position, state.asked, state.exchange.response_id)
        given = call, "given up", (scope, key), 0, call.tenant
        timer = self._loop.call_later(verdict.again_within, partial(self._passing.put, *given))
        held = _FailedRun(state.run, scope, state.position, state.asked.attempt, verdict.end, timer)
        await self._give_up(self._held.put(scope, key, held))

    async def _given_up(self, scope: str, key: tuple[str, str]) -> None:
        """End the run of a failed call that was not retried; do nothing if it was."""
        held = self._held.pop(scope, key)
        await self._give_up([] if held is None else [held])

    async def _give_up(self, some: Iterable[_FailedRun]) -> None:
        for held in some:
            held.timer.cancel()
            self._conversations.given_up(held.scope, held.position, held.attempt)
            await self._end(held.run, held.end)

    async def _over(self, call: CapturedCall, verdict: Verdict) -> None:
        state = self._open.pop(call, None)
        if state is not None:
            await self._end(state.run, verdict.end)

    async def _end(self, run: PublishedRun, end: str) -> None:
        try:
            await run.end(end)
        except (TurnmillError, InvalidRecord):
            self._log("the end of a model call is not captured")
        if self._control is not None:
            self._control.over(run)

    async def _send(self, run: PublishedRun, event: dict[str, Any], at: int) -> None:
        try:
            await run.send(event, at=at)
        except InvalidRecord:
            self._log("an event of a model call can't travel, and is left out")

    def _remember(self, state: _CallState) -> None:
        exchange, answer = state.exchange, state.exchange.answer
        if answer.message is not None or exchange.response_id is not None:
            fact = self._conversations.answered(
                state.position,
                state.asked,
                None if answer.message is None else answer.spoken,
                exchange.response_id,
                goes_on=answer.goes_on,
                left_out=exchange.left_out,
            )
            if self._shared:
                state.run.tell(headers_of_fact(fact))
