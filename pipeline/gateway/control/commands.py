"""The commands that a gateway knows, and what became of each: by the control topic, and by what their runs have said.

It listens from the first command, or the first publisher's stream, on; a gateway that nobody asks reads nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.gateway.follower import Follower, Offsets
from pipeline.kafka.reading import offsets_since
from pipeline.policies.command_states import (
    PATIENCE_MS,
    TOLD,
    Standing,
    acknowledged,
    requested,
    run_ended,
    told,
    waited,
)
from pipeline.settings import Settings
from topics import control
from topics.catalog import CONTROL, EVENTS
from topics.control import ControlRecord
from turnmill.clock import now_ms
from turnmill.control_record import EVENT, STATE, Command, command_of
from turnmill.envelope import encode
from turnmill.errors import InvalidRecord, TurnmillError
from turnmill.limits import COMMANDS
from turnmill.publisher import Publisher
from turnmill.wires import WIRES

EXPIRES_MS: Final = 600_000
BACK: Final = 900.0  # seconds that are read at the start: commands that have not expired, and what their runs said
READY_WITHIN: Final = 15.0
WAITING: Final = 1_000  # commands that one stream may be behind

log = logging.getLogger(__name__)

Subject = tuple[str, str, str]  # tenant, thread, run


@dataclass(slots=True)
class Known:
    """A command, and its standing. `told`: the topic has the standing."""

    command: Command
    standing: Standing
    told: bool = False


@dataclass(slots=True, eq=False)
class _Stream:
    tenant: str | None
    waiting: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(WAITING))


class Commands:
    """A listener of the follower; see the module."""

    name = "the commands"
    topics = (CONTROL, EVENTS)
    runs: Final = "none"

    def __init__(self, settings: Settings, follower: Follower, publisher: Callable[[], Awaitable[Publisher]]) -> None:
        self._settings = settings
        self._follower = follower
        self._publisher = publisher
        self._control = CONTROL.full_name(settings.topic_prefix)
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._of_run: dict[Subject, list[Known]] = {}  # whose standing may change
        self._streams: set[_Stream] = set()
        self._mine: set[str] = set()
        self._telling: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Return when what was said so far is known. Raises BrokerError."""
        await self._follower.ready(self, READY_WITHIN, "what was commanded before is still being read")

    async def give(self, command: Command) -> None:
        """Publish a command. Raises BrokerError."""
        self._mine.add(command.id)
        self._add(command)
        await self._publish(as_record(command))
        loop = asyncio.get_running_loop()
        loop.call_later(PATIENCE_MS / 1000 + 1, self._look_again, command.id)

    async def over(self, command_id: str, reason: str) -> None:
        """Note that the run of a command was over before it came."""
        self._move(self._known[command_id], run_ended(self._known[command_id].standing, reason, now_ms()))

    def standing(self, command_id: str) -> Known | None:
        """Return a command with its standing now."""
        known = self._known.get(command_id)
        if known is not None:
            self._move(known, waited(known.standing, now_ms()))
        return known

    async def stream(self, tenant: str | None, silence: float) -> AsyncGenerator[bytes | None]:
        """Yield the records of commands for a tenant's runs, first those that may be heeded yet; None: a silence."""
        mine = _Stream(tenant)
        now = now_ms()
        for known in self._known.values():
            if known.standing.state in ("requested", "unanswered") and known.command.expires > now:
                self._offer(mine, known.command)
        self._streams.add(mine)
        try:
            while True:
                try:
                    async with asyncio.timeout(silence):
                        value = await mine.waiting.get()
                except TimeoutError:
                    yield None
                else:
                    yield value
        finally:
            self._streams.discard(mine)

    async def close(self) -> None:
        """Let what is to be told reach the topic."""
        if self._telling:
            await asyncio.gather(*self._telling, return_exceptions=True)

    # ---- the listener

    async def starts(self, consumer: AIOKafkaConsumer) -> Offsets:
        """Return where the reading begins."""
        return await offsets_since(self._settings, consumer, self.topics, BACK)

    def take(self, place: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Take commands and states, and what the runs of commands say."""
        if place.topic == self._control:
            for record in records:
                with suppress(InvalidRecord):
                    self._heard(control.decode(record.value))
            return
        for record in records if self._of_run else ():
            envelope = record.envelope
            subject = None if envelope is None else _subject(envelope)
            for known in list(self._of_run.get(subject, ())) if subject is not None else ():
                self._said(known, envelope)

    def _heard(self, record: ControlRecord) -> None:
        if record["kind"] == STATE:
            payload = record.get("payload", {})
            known = self._known.get(str(payload.get("command_id")))
            if known is not None:
                known.told = True
                self._move(known, told(known.standing, payload.get("state"), record["at"], payload.get("reason")))
            return
        command = command_of(dict(record))
        if command is not None:
            self._add(command)

    def _add(self, command: Command) -> None:
        if command.id in self._known:
            return
        known = self._known[command.id] = Known(command, requested(command.at))
        self._of_run.setdefault(_of(command), []).append(known)
        while len(self._known) > COMMANDS:
            _, oldest = self._known.popitem(last=False)
            self._settle(oldest)
        for stream in self._streams:
            self._offer(stream, command)

    def _offer(self, stream: _Stream, command: Command) -> None:
        if stream.tenant in (None, command.tenant):
            with suppress(asyncio.QueueFull):  # a reader that stands still: it connects again, and gets what is open
                stream.waiting.put_nowait(encode(as_record(command)))

    def _said(self, known: Known, envelope: dict[str, Any]) -> None:
        kind = WIRES[envelope["dialect"]].kind if envelope["dialect"] in WIRES else "type"
        for event in envelope["events"]:
            if isinstance(event, dict) and event.get(kind) == EVENT and event.get("id") == known.command.id:
                self._move(known, acknowledged(known.standing, event.get("state"), now_ms(), event.get("reason")))
        if envelope.get("end") is not None:
            self._move(known, run_ended(known.standing, envelope["end"], now_ms()))

    def _move(self, known: Known, to: Standing) -> None:
        if to == known.standing:
            return
        known.standing = to
        if to.state in ("ended", "completed", "refused"):
            self._settle(known)
        if to.state in TOLD and known.command.id in self._mine and not known.told:
            task = asyncio.ensure_future(self._tell(known))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def _settle(self, known: Known) -> None:
        of_run = self._of_run.get(_of(known.command), [])
        if known in of_run:
            of_run.remove(known)
        if not of_run:
            self._of_run.pop(_of(known.command), None)

    def _look_again(self, command_id: str) -> None:
        known = self.standing(command_id)
        if known is not None and known.standing.state == "unanswered":
            command = known.command
            log.warning(
                "command %s to run %s of thread %s: nobody answers", command.id, command.run_id, command.thread_id
            )

    async def _tell(self, known: Known) -> None:
        command, standing = known.command, known.standing
        payload = {"command_id": command.id, "state": standing.state}
        if standing.reason is not None:
            payload["reason"] = standing.reason
        record: ControlRecord = {
            "v": control.VERSION,
            "id": str(uuid4()),
            "thread_id": command.thread_id,
            "kind": STATE,
            "by": "gateway",
            "at": standing.at,
            "expires": standing.at,
            "payload": payload,
        }
        try:
            await self._publish(dict(record))
        except TurnmillError as error:  # it follows from the topics again
            log.warning("the state of command %s is not on the topic: %s", command.id, error)

    async def _publish(self, record: dict[str, Any]) -> None:
        publisher = await self._publisher()
        await publisher.put(record["thread_id"].encode(), encode(record))
        await publisher.flush(READY_WITHIN)


def new_command(kind: str, key: tuple[str, str | None], run_id: str, mode: str, by: str) -> Command:
    """Return a command to a run of the thread with this id and tenant."""
    thread_id, tenant = key
    now = now_ms()
    return Command(str(uuid4()), thread_id, run_id, tenant, kind, mode, by, now, now + EXPIRES_MS)


def as_record(command: Command) -> dict[str, Any]:
    """Return a command as its record on the topic."""
    names = ("id", "thread_id", "run_id", "tenant", "kind", "mode", "by", "at", "expires")
    found = {name: getattr(command, name) for name in names}
    return {"v": control.VERSION, **{name: value for name, value in found.items() if value is not None}}


def _of(command: Command) -> Subject:
    return command.tenant or "", command.thread_id, command.run_id


def _subject(envelope: dict[str, Any]) -> Subject:
    return envelope.get("tenant") or "", envelope["thread_id"].lower(), envelope["run_id"]
