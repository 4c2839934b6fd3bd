"""The commands that a gateway knows, and the state of each, read from the control topic and from their runs' events.

It reads these topics from the first command, or the first publisher's stream, on; an unused gateway reads nothing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, Self
from uuid import uuid4

from aiokafka import TopicPartition

from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.control.memory import Known, Memory, notice_of, state_record
from pipeline.gateway.control.streams import CommandStreams
from pipeline.gateway.live.erased import Erased
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
from pipeline.policies.pools import CLAIMS
from pipeline.stores.outbound.notices import KNOWN_MS, add_notices
from topics import control
from topics.catalog import CONTROL, EVENTS
from topics.control import ControlRecord
from topics.notice import NoticeRecord
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.control.claims import Claims
from turnmill.control.record import ANSWER, EVENT, STATE, Command, command_of
from turnmill.errors import InvalidRecord, TurnmillError
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import encode
from turnmill.wire.registry import WIRES

EXPIRES_MS: Final = 600_000
ANSWERS_MS: Final = 14 * 86_400_000  # as long as the topic retains them
LOOK_BACK: Final = 900.0  # seconds of events that are read at the start, for commands that have not expired
READY_TIMEOUT: Final = 15.0
IDLE_TIMEOUT: Final = 3_600.0
FOREIGN_DELAY: Final = 5.0  # seconds after which a gateway reports the state of a command that another gateway gave
OBEYED_LATER: Final = ("requested", "unanswered")  # states in which a run may still obey a command
MARKS: Final = (EVENT.encode(), b'"end"')  # a record without them changes no command's state

log = logging.getLogger(__name__)


class Commands(Service):
    """A listener of the follower; see the module.

    `control_topic`: its name on the broker; `notify` adds a notice; `budgets` take answers to their questions;
    `erased` returns the deleted ones of some threads.
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
        erased: Callable[[Sequence[ThreadKey]], Awaitable[set[ThreadKey]]],
    ) -> None:
        self._follower = follower
        self._publisher = publisher
        self._notify = notify
        self._budgets = budgets
        self._control = control_topic
        self._known = Memory()
        self._claims = Claims(CLAIMS)
        self._streams = CommandStreams(erased)
        self._telling: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, gateway: Gateway) -> Self:
        """Make it for a gateway."""

        async def notify(notice: NoticeRecord) -> None:
            await add_notices(await gateway.store(), [notice], keep_until=notice["at"] + KNOWN_MS)

        follower, answers = gateway.service(Follower), gateway.service(Budgets).answers
        erased = gateway.service(Erased).among
        return cls(follower.name_of(CONTROL), follower, gateway.control.get, notify, answers, erased)

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
        now, answers = now_ms(), self._known.answers(tenant, thread_id)
        return [known.command for known in answers if known.counts and known.command.expires > now]

    def has_room_for(self, command: Command) -> bool:
        """Return True if its tenant may give this command."""
        return self._known.has_room(command, now_ms()) and (command.kind != ANSWER or self._claims.has_room(command))

    def has_room(self, tenant: str | None) -> bool:
        """Return True if a tenant may open another stream."""
        return self._streams.has_room(tenant)

    async def stream(self, tenant: str | None, silence: float) -> AsyncGenerator[bytes | None]:
        """Yield records of commands to a tenant's runs, first those that a run may still obey; None after a silence."""
        now = now_ms()
        waiting = (known for known in self._known if known.counts and known.standing.state in OBEYED_LATER)
        earlier = [known.command for known in waiting if known.command.expires > now]
        async with aclosing(self._streams.opened(tenant, silence, earlier)) as values:
            async for value in values:
                yield value

    async def values(self) -> AsyncGenerator[bytes]:
        """Yield the records of commands to the runs that this process publishes for callers of its proxy."""
        while True:
            async for value in self.stream(None, IDLE_TIMEOUT):
                if value is not None:
                    yield value

    def listen(self) -> None:
        """Start to read commands before the first request needs them."""
        self._follower.listen(self)

    def stops(self, tenant: str | None, run_id: str) -> list[Command]:
        """Return the stops that wait for a run with this id, of whichever thread."""
        return self._known.stops(tenant, run_id)

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
                reason = _text(payload.get("reason"))
                self._move(known, published(known.standing, payload.get("state"), record["at"], reason))
            return
        command = command_of(dict(record))
        if command is None:
            return
        known = self._add(command)
        if command.kind == ANSWER:
            of_budget = self._budgets.take(command, now_ms())
            winner = self._claims.take(command, now_ms()) if of_budget is None else of_budget
            if winner is None:
                self._move(known, acknowledged(known.standing, "refused", now_ms(), "too many answers are remembered"))
            elif winner.id != command.id:
                reason = f"answered already by {winner.by}, with the command {winner.id}"
                self._move(known, acknowledged(known.standing, "refused", now_ms(), reason))
            elif of_budget is not None:  # an answer to a budget is taken up by the gateways, at once, and by no run
                self._move(known, acknowledged(known.standing, "acknowledged", now_ms()))
            else:
                known.counts = True
                if known.standing.state == "requested":
                    self._streams.offer(command)

    def _add(self, command: Command, *, mine: bool = False) -> Known:
        known = self._known.get(command.id)
        if known is not None:
            return known
        known = Known(command, requested(command.at), command.kind != ANSWER, mine)
        self._known.add(known)
        if command.kind != ANSWER:  # an answer is offered once the topic shows that it is the first
            self._streams.offer(command)
        age = (now_ms() - command.at) / 1000
        if age < EXPIRES_MS / 1000:
            wait = ACKNOWLEDGE_TIMEOUT_MS / 1000 + (1 if mine else FOREIGN_DELAY) - age
            asyncio.get_running_loop().call_later(max(1.0, wait), self.standing, command.id)
        return known

    def _take_events(self, known: Known, envelope: dict[str, Any]) -> None:
        kind = WIRES[envelope["dialect"]].kind if envelope["dialect"] in WIRES else "type"
        for event in envelope["events"]:
            if isinstance(event, dict) and event.get(kind) == EVENT and event.get("id") == known.command.id:
                reason = _text(event.get("reason"))
                self._move(known, acknowledged(known.standing, event.get("state"), now_ms(), reason))
        if envelope.get("end") is not None and known.command.kind != ANSWER:
            self._move(known, run_ended(known.standing, envelope["end"], now_ms()))

    def _move(self, known: Known, to: CommandStatus) -> None:
        if to == known.standing:
            return
        known.standing = to
        is_taken_up = known.command.kind == ANSWER and to.state == "acknowledged"
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


def _text(reason: object) -> str | None:
    """Return the reason that a program gives; None where it is no text."""
    return reason if isinstance(reason, str) else None


def new_command(
    kind: str, key: tuple[str, str | None], run_id: str, mode: str, by: str, payload: Mapping[str, Any] | None = None
) -> Command:
    """Return a command to a run of the thread with this id and tenant."""
    thread_id, tenant = key
    now = now_ms()
    expires = now + (ANSWERS_MS if kind == ANSWER else EXPIRES_MS)
    packed = encode(dict(payload)) if payload else b""
    return Command(str(uuid4()), thread_id, run_id, tenant, kind, mode, by, now, expires, packed)


TheCommands = Annotated[Commands, provided(Commands)]
