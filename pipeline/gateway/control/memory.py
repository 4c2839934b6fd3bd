"""The commands that a gateway remembers, and the records by which it reports their state. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pipeline.policies.command_states import CommandStatus, State
from topics import control, notice
from topics.notice import COMMAND_UNANSWERED, NoticeRecord
from turnmill.control.record import ANSWER, STATE, Command
from turnmill.shares import Shares

Subject = tuple[str, str, str]  # tenant, thread, run; the run of an answer is "": any run of the thread takes it up
BY: Final = "gateway"


@dataclass(slots=True, eq=False)
class Known:
    """A command and its state. `mine`: this gateway gave it; `published`: its last state on the topic."""

    command: Command
    standing: CommandStatus
    mine: bool = False
    published: State = "requested"


class Memory:
    """At most `most` commands; beyond that, the oldest of the tenant with the most commands is removed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shares = Shares()
        self._of_tenant: dict[str | None, OrderedDict[str, Known]] = {}
        self._by_id: dict[str, Known] = {}
        self._open: dict[Subject, list[Known]] = {}  # those whose state may change

    def __iter__(self) -> Iterator[Known]:
        return iter(self._by_id.values())

    def get(self, command_id: str) -> Known | None:
        """Return a command, None where it is not known."""
        return self._by_id.get(command_id)

    def add(self, known: Known) -> None:
        """Remember a new command."""
        command = known.command
        self._by_id[command.id] = known
        self._of_tenant.setdefault(command.tenant, OrderedDict())[command.id] = known
        self._open.setdefault(_subject(command), []).append(known)
        self._shares.add(command.tenant, 1)
        while self._shares.total > self._most:
            fullest = self._shares.most()
            oldest_id, oldest = self._of_tenant[fullest].popitem(last=False)
            self._shares.add(fullest, -1)
            if not self._of_tenant[fullest]:
                del self._of_tenant[fullest]
            del self._by_id[oldest_id]
            self.settle(oldest)

    def settle(self, known: Known) -> None:
        """Note that the state of a command is final."""
        subject = _subject(known.command)
        left = [command for command in self._open.pop(subject, ()) if command is not known]
        if left:
            self._open[subject] = left

    @property
    def waits(self) -> bool:
        """True while the state of a command may change."""
        return bool(self._open)

    def awaits(self, tenant: str | None, run_id: str) -> bool:
        """Return True if a command may still reach a run with this id, of whichever thread."""
        return any((of, run) == (tenant or "", run_id) for of, _, run in self._open)

    def of(self, envelope: dict[str, Any]) -> list[Known]:
        """Return the commands whose state a record of a run may change."""
        tenant, thread = envelope.get("tenant") or "", envelope["thread_id"].lower()
        of_thread = self._open.get((tenant, thread, ""), ())
        return [*self._open.get((tenant, thread, envelope["run_id"]), ()), *of_thread]


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
