"""The first answer to each question of a thread, and whether a run has taken it up yet. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnmill.control.record import ANSWER, STATE, Command, command_of

TAKEN_UP: Final = frozenset({"acknowledged", "ended"})  # states of an answer that a run has taken up


def answer_id(run_id: str, own_id: str) -> str:
    """Return the id of a question, made of the run's id and the id that the wire gives the call or interrupt."""
    return hashlib.sha256(f"{run_id}\n{own_id}".encode("utf-8", "backslashreplace")).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer. `value`: any JSON; `asked`: the question, as `GET /v1/runs?status=waiting` shows it.

    `run_id`: the run that asked; `dialect`: its wire; both only if known. `command_id`: the command that contains the
    answer.
    """

    answer_id: str
    run_id: str
    dialect: str | None
    asked: Mapping[str, Any]
    value: Any
    by: str
    command_id: str


def answer_of(command: Command) -> Answer:
    """Return the answer that a command contains."""
    payload = command.payload
    asked = payload.get("asked")
    return Answer(
        answer_id=payload["answer_id"],
        run_id=command.run_id,
        dialect=payload.get("dialect"),
        asked=asked if isinstance(asked, dict) else {},
        value=payload.get("value"),
        by=command.by,
        command_id=command.id,
    )


class Claims:
    """The first answer to each question, in the order of the topic. At most `most`; then the oldest is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._winners: OrderedDict[tuple[str | None, str, str], Command] = OrderedDict()
        self._taken_up: set[str] = set()

    def take(self, command: Command) -> Command:
        """Note an answer. Return the first answer to its question: this one or an earlier one."""
        winner = self._winners.setdefault((command.tenant, command.thread_id, command.payload["answer_id"]), command)
        if len(self._winners) > self._most:
            _, oldest = self._winners.popitem(last=False)
            self._taken_up.discard(oldest.id)
        return winner

    def taken_up(self, command_id: str) -> None:
        """Note that a run has taken up this answer."""
        self._taken_up.add(command_id)

    def open(self, tenant: str | None, thread_id: str, now: int) -> list[Command]:
        """Return a thread's answers that no run has taken up, the oldest first."""
        return [
            command
            for (of, thread, _), command in self._winners.items()
            if (of, thread) == (tenant, thread_id) and command.id not in self._taken_up and command.expires > now
        ]


def open_answers(records: Iterable[dict[str, Any]], tenant: str | None, thread_id: str, now: int) -> list[Answer]:
    """Return a thread's answers that no run has taken up, from the control topic's records in their order."""
    claims = Claims(most=1_000_000)
    for record in records:
        payload = record.get("payload", {})
        if record["kind"] == STATE and payload.get("state") in TAKEN_UP:
            claims.taken_up(str(payload.get("command_id")))
        elif record["kind"] == ANSWER and (command := command_of(record)) is not None:
            claims.take(command)
    return [answer_of(command) for command in claims.open(tenant, thread_id, now)]
