"""Receive the commands to the runs of a process: from Kafka without a group, or from a gateway by a stream.

Reading starts with the first run, and ten minutes back, so that a command may come before its run. If commands can't be
received, that is logged once, and runs are published as before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from turnmill.clock import now_ms
from turnmill.control.record import ANSWER, STOP, TOPIC, Command, command_of, record_of
from turnmill.ending import ended
from turnmill.errors import InvalidRecord, TurnmillError
from turnmill.identity import thread_uuid
from turnmill.kafka.client_log import RARELY, client_log
from turnmill.pools import HEARD
from turnmill.remembered import Remembered

if TYPE_CHECKING:
    from turnmill.control.stopping import Stopping
    from turnmill.settings import ClientSettings

CONNECT_DELAY: Final = 0.05  # seconds: a program that ends within this time never connects for commands
LOOK_BACK_MS: Final = 600_000  # the age of the oldest commands that are read from Kafka
RETRY_DELAY: Final = 2.0  # seconds before a gateway's stream is requested again
BODY_TIMEOUT: Final = 300.0

log = logging.getLogger(__name__)


class ControlledRun(Protocol):
    """The interface of a run to which commands are delivered."""

    stopped: Stopping
    parent: tuple[str | None, str] | None  # (thread, run) of the run that started this run; None: the same thread

    @property
    def thread_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def tenant(self) -> str | None: ...
    def on_command(self, command: Command) -> None: ...


class Control:
    """Receives the commands for a publisher's runs.

    `connected`: returns once the broker, or the gateway, has answered. `values`: yields the values of records, for a
    process that reads the topic anyway.
    """

    def __init__(
        self,
        settings: ClientSettings,
        connected: Callable[[], Awaitable[None]] | None = None,
        *,
        values: Callable[[], AsyncIterator[bytes]] | None = None,
    ) -> None:
        self._settings = settings
        self._connected = connected
        self._over_http = settings.publish_url is not None
        self._is_new = values is None
        self._values = values or (self._of_gateway if self._over_http else self._of_kafka)
        self._runs: dict[str, list[ControlledRun]] = {}  # by run id; runs of several threads may have the same id
        self._recent: Remembered[str, Command] = Remembered(HEARD, lambda command: command.size)
        self._done: set[str] = set()  # ids of recent commands that were delivered to the run that they name
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Receive commands from now on, if not before: a stop may come before the first run."""
        if self._task is None:
            self._task = asyncio.create_task(self._hear(), name="control")

    def begun(self, run: ControlledRun) -> None:
        """Deliver commands to this run from now on, including recent ones."""
        self.listen()
        self._runs.setdefault(run.run_id, []).append(run)
        for command in list(self._recent):
            self._tell(run, command)

    def over(self, run: ControlledRun) -> None:
        """Forget a run."""
        some = self._runs.get(run.run_id, [])
        if run in some:
            some.remove(run)
        if not some:
            self._runs.pop(run.run_id, None)

    async def close(self) -> None:
        """Stop receiving commands."""
        if self._task is not None:
            await ended(self._task)

    def heard(self, value: bytes) -> None:
        """Process the value of a record of the control topic."""
        try:
            command = command_of(record_of(value))
        except InvalidRecord as error:
            log.warning("a command can't be read, and is left out: %s", error.detail)
            return
        if command is not None:
            self.take(command)

    def take(self, command: Command) -> None:
        """Deliver a command to runs, also to those that begin before it expires; once, however often it comes."""
        if self._recent.get(command.tenant or "", command.id):
            return
        if command.expires <= (now := now_ms()):
            if not self._is_new:
                return
            # What is read is no older than LOOK_BACK_MS by this clock. So it has just come, and this clock is ahead.
            command = replace(command, expires=now + command.expires - command.at)
        for forgotten in self._recent.put(command.tenant or "", command.id, command):
            self._done.discard(forgotten.id)
        for run in [run for runs in self._runs.values() for run in runs]:
            self._tell(run, command)

    def _tell(self, run: ControlledRun, command: Command) -> None:
        """Deliver a command to a run that it is for. A command to stop also applies to the runs that its run started.

        Over HTTP, `run.thread_id` is the caller's name of the thread, and the tenant is that of the token.
        """
        if command.expires <= now_ms() or not (self._over_http or run.tenant == command.tenant):
            return
        if command.kind == ANSWER:
            if thread_uuid(run.thread_id, command.tenant)[0] == command.thread_id:
                run.on_command(command)
            return
        for depth, (thread, run_id) in enumerate(self._lineage(run)):
            if run_id != command.run_id or thread_uuid(thread, command.tenant)[0] != command.thread_id:
                continue
            if depth == 0 and command.id in self._done:  # an earlier run with this id received it
                return
            if depth == 0:
                self._done.add(command.id)
            if command.kind == STOP:
                run.stopped.tell(command)
            elif depth == 0:
                run.on_command(command)
            return

    def _lineage(self, run: ControlledRun) -> Iterator[tuple[str, str]]:
        """Yield (thread, run id) of a run, of the run that started it, and so on, as far as this process knows them."""
        thread, seen = run.thread_id, set[str]()
        at: ControlledRun | None = run
        yield thread, run.run_id
        while at is not None and (parent := at.parent) is not None and parent[1] not in seen:
            seen.add(parent[1])
            thread = parent[0] or thread
            yield thread, parent[1]
            at = next((other for other in self._runs.get(parent[1], ()) if other.thread_id == thread), None)

    async def _hear(self) -> None:
        try:
            if self._connected is not None:  # the publisher reports that no broker answers; we only wait
                await self._connected()
            await asyncio.sleep(CONNECT_DELAY)
            with client_log(RARELY):
                async for value in self._values():
                    self.heard(value)
        except TurnmillError as error:
            log.warning("runs are published, but receive no commands (stop, steer, answer): %s", error)
        except Exception:
            log.exception("runs are published, but receive no commands (stop, steer, answer)")

    async def _of_kafka(self) -> AsyncIterator[bytes]:
        from turnmill.kafka.group_reader import GroupReader  # noqa: PLC0415  # it loads aiokafka

        start = datetime.fromtimestamp((now_ms() - LOOK_BACK_MS) / 1000, UTC)
        reader = GroupReader(self._settings, f"{self._settings.topic_prefix}.{TOPIC}", None, start, BODY_TIMEOUT)
        try:
            await reader.open()
            while True:
                for heard in await reader.poll():
                    yield heard.record.value
        finally:
            await reader.close()

    async def _of_gateway(self) -> AsyncIterator[bytes]:
        from turnmill.gateway_call import client, library  # noqa: PLC0415  # for those who publish over HTTP

        httpx = library()
        async with client(self._settings, httpx.Timeout(None, connect=10.0)) as http:
            while True:
                try:
                    async with http.stream("GET", f"{self._settings.publish_url}/v1/control") as answer:
                        if answer.status_code in (401, 403, 404):
                            raise TurnmillError(f"{self._settings.publish_url} answers {answer.status_code}")
                        async for line in answer.aiter_lines():
                            if line.startswith("data: "):
                                yield line[len("data: ") :].encode()
                except httpx.HTTPError as error:
                    log.debug("%s: %r", self._settings.publish_url, error)
                await asyncio.sleep(RETRY_DELAY)
