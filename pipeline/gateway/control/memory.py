"""The commands that a gateway remembers, and the records by which it reports their state. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pipeline.policies.command_states import CommandStatus, State
from pipeline.policies.pools import COMMANDS
from topics import control, notice
from topics.notice import COMMAND_UNANSWERED, NoticeRecord
from turnmill.control.record import ANSWER, STATE, STOP, Command
from turnmill.remembered import Remembered

Subject = tuple[str, str, str]  # tenant, thread, run; the run of an answer is "": any run of the thread takes it up
BY: Final = "gateway"
EXPIRY_INTERVAL: Final = 1_000  # ms between two looks for open commands that have expired


@dataclass(slots=True, eq=False)
class Known:
    """A command and its state.

    `counts`: runs are told of it; of an answer, once the topic shows that it is the first. `mine`: this gateway gave
    it; `published`: its last state on the topic.
    """

    command: Command
    standing: CommandStatus
    counts: bool
    mine: bool = False
    published: State = "requested"


class Memory:
    """Commands within a size in bytes. Those whose state is final are forgotten first.

    Callers may give commands that are open within their tenant's share of half of it.
    """

    def __init__(self, size: int = COMMANDS.size) -> None:
        self._open: Remembered[str, Known] = Remembered(COMMANDS, _size, size)  # those whose state may change
        self._final: Remembered[str, Known] = Remembered(COMMANDS, _size, size)
        self._by_id: dict[str, Known] = {}
        self._of_subject: dict[Subject, list[Known]] = {}  # the open ones
        self._expired_at = 0

    def __iter__(self) -> Iterator[Known]:
        """Iterate over the open commands."""
        return iter(self._open)

    def get(self, command_id: str) -> Known | None:
        """Return a command, None where it is not known."""
        return self._by_id.get(command_id)

    def has_room(self, command: Command, now: int) -> bool:
        """Return True if a tenant may give another command; `now` in epoch ms."""
        if not self._has_room(command) and now - self._expired_at > EXPIRY_INTERVAL:
            self._expired_at = now
            for known in [known for known in self._open if known.command.expires <= now]:
                self.settle(known)
        return self._has_room(command)

    def add(self, known: Known) -> None:
        """Remember a new command."""
        command = known.command
        self._by_id[command.id] = known
        self._of_subject.setdefault(_subject(command), []).append(known)
        for forgotten in self._open.put(command.tenant or "", command.id, known):
            self._close(forgotten)
            del self._by_id[forgotten.command.id]
        self._forget_final([])

    def settle(self, known: Known) -> None:
        """Note that the state of a command is final."""
        command = known.command
        if self._open.pop(command.tenant or "", command.id) is not None:
            self._close(known)
            self._forget_final(self._final.put(command.tenant or "", command.id, known))

    @property
    def waits(self) -> bool:
        """True while the state of a command may change."""
        return bool(self._of_subject)

    def stops(self, tenant: str | None, run_id: str) -> list[Command]:
        """Return the stops that may still reach a run with this id, of whichever thread."""
        subjects = [subject for subject in self._of_subject if (subject[0], subject[2]) == (tenant or "", run_id)]
        commands = [known.command for subject in subjects for known in self._of_subject[subject]]
        return [command for command in commands if command.kind == STOP]

    def of(self, envelope: dict[str, Any]) -> list[Known]:
        """Return the commands whose state a record of a run may change."""
        tenant, thread = envelope.get("tenant") or "", envelope["thread_id"].lower()
        return [*self._of_subject.get((tenant, thread, envelope["run_id"]), ()), *self.answers(tenant, thread)]

    def answers(self, tenant: str | None, thread_id: str) -> list[Known]:
        """Return a thread's answers that no run has taken up, the oldest first."""
        return self._of_subject.get((tenant or "", thread_id, ""), [])

    def _close(self, known: Known) -> None:
        subject = _subject(known.command)
        left = [command for command in self._of_subject.pop(subject, ()) if command is not known]
        if left:
            self._of_subject[subject] = left

    def _forget_final(self, some: list[Known]) -> None:
        for forgotten in (*some, *self._final.shrink(self._final.size - self._open.shares.total)):
            del self._by_id[forgotten.command.id]

    def _has_room(self, command: Command) -> bool:
        return self._open.shares.allows(command.tenant or "", command.size, self._open.size // 2)


def _size(known: Known) -> int:
    return known.command.size


def _subject(command: Command) -> Subject:
    return command.tenant or "", command.thread_id, "" if command.kind == ANSWER else command.run_id


def state_record(command: Command, standing: CommandStatus) -> dict[str, Any]:
    """Return a record of the control topic with the state of a command, for other gateways and publishers."""
    payload = {"command_id": command.id, "state": standing.state}
    if standing.reason is not None:
        payload["reason"] = standing.reason
    record: dict[str, Any] = {
        "v": control.VERSION,
        "id": str(uuid4()),
        "thread_id": command.thread_id,
        "kind": STATE,
        "by": BY,
        "at": standing.at,
        "expires": standing.at,
        "payload": payload,
    }
    return record if command.tenant is None else {**record, "tenant": command.tenant}


def notice_of(command: Command, standing: CommandStatus) -> NoticeRecord:
    """Return the notice that no program has acknowledged a command; its id is the same from every gateway."""
    data = {"command_id": command.id, "kind": command.kind, "by": command.by}
    record: NoticeRecord = {
        "v": notice.VERSION,
        "id": f"unanswered_{command.id}",
        "type": COMMAND_UNANSWERED,
        "at": standing.at,
        "data": data if not command.run_id else {**data, "run_id": command.run_id},
        "thread_id": command.thread_id,
    }
    if command.tenant:
        record["tenant"] = command.tenant
    return record
