"""The commands that a gateway knows, and the state of each, read from the control topic and from their runs' events.

It reads these topics from the first command, or the first publisher's stream, on; an unused gateway reads nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self
from uuid import uuid4

from aiokafka import TopicPartition

from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.control.memory import Known, Memory, notice_of, state_record
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.state import Gateway, Service, provided
from pipeline.policies.budgets import BudgetAnswers
from pipeline.policies.command_states import (
    ACKNOWLEDGE_TIMEOUT_MS,
    FINAL,
    PUBLISHED_STATES,
    CommandStatus,
    acknowledged,
    published,
    requested,
    run_ended,
    waited,
)
from pipeline.policies.pools import COMMAND_STREAMS, COMMANDS
from pipeline.stores.outbound.notices import add_notices
from topics import control
from topics.catalog import CONTROL, EVENTS
from topics.control import ControlRecord
from topics.notice import NoticeRecord
from turnmill.clock import now_ms
from turnmill.control.claims import Claims
from turnmill.control.record import ANSWER, EVENT, STATE, Command, command_of
from turnmill.errors import InvalidRecord, TurnmillError
from turnmill.publish.publisher import Publisher
from turnmill.shares import Shares
from turnmill.wire.envelope import encode
from turnmill.wire.registry import WIRES

EXPIRES_MS: Final = 600_000
NOTICE_KNOWN_MS: Final = 86_400_000  # within which other gateways may add the same notice
ANSWERS_MS: Final = 14 * 86_400_000  # as long as the topic retains them
LOOK_BACK: Final = 900.0  # seconds of events that are read at the start, for commands that have not expired
READY_TIMEOUT: Final = 15.0
IDLE_TIMEOUT: Final = 3_600.0
MAX_WAITING: Final = 1_000  # commands that may be queued for one stream
FOREIGN_DELAY: Final = 5.0  # seconds after which a gateway reports the state of a command that another gateway gave
MARKS: Final = (EVENT.encode(), b'"end"')  # a record without them changes no command's state

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Stream:
    tenant: str | None
    waiting: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))


class Commands(Service):
    """A listener of the follower; see the module.

    `control_topic`: its name on the broker; `notify` adds a notice; `budgets` take answers to their questions.
    """

    name = "the commands"
    topics = (CONTROL, EVENTS)
    runs: Final = "none"

    def __init__(
        self,
        control_topic: str,
        follower: Follower,
        publisher: Callable[[], Awaitable[Publisher]],
        notify: Callable[[NoticeRecord], Awaitable[None]],
        budgets: BudgetAnswers,
    ) -> None:
        self._follower = follower
        self._publisher = publisher
        self._notify = notify
        self._budgets = budgets
        self._control = control_topic
        self._known = Memory(COMMANDS.size)
        self._claims = Claims(COMMANDS.size)
        self._streams: set[_Stream] = set()
        self._listening = Shares()
        self._telling: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, gateway: Gateway) -> Self:
        """Make it for a gateway."""

        async def notify(notice: NoticeRecord) -> None:
            await add_notices(await gateway.store(), [notice], keep_until=notice["at"] + NOTICE_KNOWN_MS)

        follower, answers = gateway.service(Follower), gateway.service(Budgets).answers
        return cls(follower.name_of(CONTROL), follower, gateway.control.get, notify, answers)

    async def ready(self) -> None:
        """Return once all earlier commands and states have been read. Raises BrokerError."""
        await self._follower.ready(self, READY_TIMEOUT, "what was commanded before is still being read")

    async def give(self, command: Command) -> None:
        """Publish a command. Raises BrokerError."""
        self._add(command, mine=True)
        await self._publish(command.record)

    async def over(self, command_id: str, reason: str) -> None:
        """Note that the run was over before its command came."""
        if (known := self._known.get(command_id)) is not None:
            self._move(known, run_ended(known.standing, reason, now_ms()))

    def standing(self, command_id: str) -> Known | None:
        """Return a command with its present state, None if unknown."""
        known = self._known.get(command_id)
        if known is not None:
            self._move(known, waited(known.standing, now_ms()))
        return known

    def open_answers(self, tenant: str | None, thread_id: str) -> list[Command]:
        """Return a thread's answers that no run has taken up, the oldest first."""
        return self._claims.open(tenant, thread_id, now_ms())

    def has_room(self, tenant: str | None) -> bool:
        """Return True if a tenant may open one more stream."""
        return self._listening.allows(tenant, 1, COMMAND_STREAMS.size)

    async def stream(self, tenant: str | None, silence: float) -> AsyncGenerator[bytes | None]:
        """Yield records of commands to a tenant's runs, first those that a run may still obey; None after a silence."""
        mine = _Stream(tenant)
        now = now_ms()
        for known in self._known:
            if known.standing.state in ("requested", "unanswered") and known.command.expires > now:
                _offer([mine], known.command)
        self._streams.add(mine)
        self._listening.add(tenant, 1)
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
            self._listening.add(tenant, -1)

    async def values(self) -> AsyncGenerator[bytes]:
        """Yield the records of commands to the runs that this process publishes for callers of its proxy."""
        async for value in self.stream(None, IDLE_TIMEOUT):
            if value is not None:
                yield value

    def listen(self) -> None:
        """Start to read commands before the first request needs them."""
        self._follower.listen(self)

    def awaits(self, tenant: str | None, run_id: str) -> bool:
        """Return True if a command waits for a run with this id, of whichever thread."""
        return self._known.awaits(tenant, run_id)

    async def close(self) -> None:
        """Wait until the states that are being published have reached the topic."""
        if self._telling:
            await asyncio.gather(*self._telling, return_exceptions=True)

    # ---- the listener

    async def starts(self, past: Past) -> Offsets:
        """Return where to begin: at the oldest command kept, and at the events that may answer the latest ones."""
        return {**await past.since([CONTROL], ANSWERS_MS / 1000), **await past.since([EVENTS], LOOK_BACK)}

    def take(self, partition: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Take commands and their states, and the events of their runs."""
        if partition.topic == self._control:
            for record in records:
                with suppress(InvalidRecord):
                    self._heard(control.decode(record.value))
            return
        for record in records if self._known.waits else ():
            envelope = record.envelope if record.holds_any(MARKS) else None
            if envelope is not None:
                for known in self._known.of(envelope):
                    self._take_events(known, envelope)

    def _heard(self, record: ControlRecord) -> None:
        if record["kind"] == STATE:
            payload = record.get("payload", {})
            known = self._known.get(str(payload.get("command_id")))
            if known is not None:
                known.published = payload.get("state", known.published)
                self._move(known, published(known.standing, payload.get("state"), record["at"], payload.get("reason")))
            return
        command = command_of(dict(record))
        if command is None:
            return
        known = self._add(command)
        if command.kind == ANSWER:
            of_budget = self._budgets.take(command, now_ms())
            winner = self._claims.take(command) if of_budget is None else of_budget
            if winner.id != command.id:
                reason = f"answered already by {winner.by}, with the command {winner.id}"
                self._move(known, acknowledged(known.standing, "refused", now_ms(), reason))
            elif of_budget is not None:  # an answer to a budget is taken up by the gateways, at once, and by no run
                self._move(known, acknowledged(known.standing, "acknowledged", now_ms()))
            elif known.standing.state == "requested":
                _offer(self._streams, command)

    def _add(self, command: Command, *, mine: bool = False) -> Known:
        known = self._known.get(command.id)
        if known is not None:
            return known
        known = Known(command, requested(command.at), mine)
        self._known.add(known)
        if command.kind != ANSWER:  # an answer is offered once the topic shows that it is the first
            _offer(self._streams, command)
        age = (now_ms() - command.at) / 1000
        if age < EXPIRES_MS / 1000:
            wait = ACKNOWLEDGE_TIMEOUT_MS / 1000 + (1 if mine else FOREIGN_DELAY) - age
            asyncio.get_running_loop().call_later(max(1.0, wait), self.standing, command.id)
        return known

    def _take_events(self, known: Known, envelope: dict[str, Any]) -> None:
        kind = WIRES[envelope["dialect"]].kind if envelope["dialect"] in WIRES else "type"
        for event in envelope["events"]:
            if isinstance(event, dict) and event.get(kind) == EVENT and event.get("id") == known.command.id:
                self._move(known, acknowledged(known.standing, event.get("state"), now_ms(), event.get("reason")))
        if envelope.get("end") is not None and known.command.kind != ANSWER:
            self._move(known, run_ended(known.standing, envelope["end"], now_ms()))

    def _move(self, known: Known, to: CommandStatus) -> None:
        if to == known.standing:
            return
        known.standing = to
        is_taken_up = known.command.kind == ANSWER and to.state == "acknowledged"
        if is_taken_up:
            self._claims.taken_up(known.command.id)
        if is_taken_up or to.state in FINAL:
            self._known.settle(known)
        if to.state in PUBLISHED_STATES and to.state != known.published:
            delay = 0.0 if known.mine else FOREIGN_DELAY  # another gateway publishes at once, unless it has stopped
            asyncio.get_running_loop().call_later(delay, self._tell_soon, known)

    def _tell_soon(self, known: Known) -> None:
        if known.standing.state in PUBLISHED_STATES and known.standing.state != known.published:
            task = asyncio.ensure_future(self._tell(known, known.standing))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, known: Known, standing: CommandStatus) -> None:
        known.published = standing.state
        try:
            await self._publish(state_record(known.command, standing))
            if standing.state == "unanswered":
                log.warning("command %s to run %s: nobody answers", known.command.id, known.command.run_id)
                await self._notify(notice_of(known.command, standing))
        except TurnmillError as error:  # nothing is lost: the state can be read from the topics again
            log.warning("the state of command %s is not on the topic: %s", known.command.id, error)

    async def _publish(self, record: dict[str, Any]) -> None:
        publisher = await self._publisher()
        await publisher.put(record["thread_id"].encode(), encode(record))
        await publisher.flush(READY_TIMEOUT)


def _offer(streams: Collection[_Stream], command: Command) -> None:
    """Hand a command to the streams of its tenant.

    A stream whose queue is full misses it; its reader gets the open commands when it connects again.
    """
    theirs = [stream for stream in streams if stream.tenant in (None, command.tenant)]
    value = encode(command.record) if theirs else b""
    for stream in theirs:
        with suppress(asyncio.QueueFull):
            stream.waiting.put_nowait(value)


def new_command(
    kind: str, key: tuple[str, str | None], run_id: str, mode: str, by: str, payload: Mapping[str, Any] | None = None
) -> Command:
    """Return a command to a run of the thread with this id and tenant."""
    thread_id, tenant = key
    now = now_ms()
    expires = now + (ANSWERS_MS if kind == ANSWER else EXPIRES_MS)
    return Command(str(uuid4()), thread_id, run_id, tenant, kind, mode, by, now, expires, payload or {})


TheCommands = Annotated[Commands, provided(Commands)]
