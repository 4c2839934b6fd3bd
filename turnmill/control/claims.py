"""The first answer to each question of a thread, and whether a run has taken it up yet. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from turnmill.control.record import ANSWER, STATE, Command, command_of
from turnmill.pools import Pool
from turnmill.remembered import Remembered

TAKEN_UP: Final = frozenset({"acknowledged", "ended"})  # states of an answer that a run has taken up
SWEEP_INTERVAL: Final = 1_000  # ms between two looks for answers that have expired


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


class Winner(NamedTuple):
    """The first answer to a question: its command, its author, and until when it counts (epoch ms)."""

    id: str
    by: str
    expires: int


class Claims:
    """The first answer to each question, in the order of the topic, until it expires.

    None is forgotten before, since a later answer, perhaps another one, would then count as the first. So beyond the
    size of `pool`, further answers are not taken; half of that is for what callers give, each tenant within its share.
    """

    def __init__(self, pool: Pool) -> None:
        self._winners: Remembered[bytes, Winner] = Remembered(pool)
        self._swept_at = 0

    def has_room(self, command: Command) -> bool:
        """Return True if a tenant may give another answer."""
        return self._winners.fits(command.tenant, _question(command), _winner(command), self._winners.size // 2)

    def take(self, command: Command, now: int) -> Winner | None:
        """Note an answer. Return the first answer to its question, this one or an earlier one; None without room."""
        winners, tenant, question = self._winners, command.tenant, _question(command)
        if now - self._swept_at > SWEEP_INTERVAL:
            self._swept_at = now
            winners.shed(lambda winner: winner.expires <= now)
        first = winners.get(tenant, question)
        if first is None or first.expires <= now:
            first = _winner(command)
            if not winners.has_bytes(question, first):
                return None
            winners.put(tenant, question, first)
        return first


def _question(command: Command) -> bytes:
    text = f"{command.thread_id}\n{command.payload['answer_id']}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()


def _winner(command: Command) -> Winner:
    return Winner(command.id, command.by, command.expires)


def open_answers(records: Iterable[dict[str, Any]], tenant: str | None, thread_id: str, now: int) -> list[Answer]:
    """Return a thread's answers that no run has taken up, from the control topic's records in their order."""
    first: dict[str, Command] = {}
    taken_up: set[str] = set()
    for record in records:
        payload = record.get("payload", {})
        if record["kind"] == STATE and payload.get("state") in TAKEN_UP:
            taken_up.add(str(payload.get("command_id")))
        elif record["kind"] == ANSWER and (record.get("tenant"), record["thread_id"]) == (tenant, thread_id):
            command = command_of(record)
            if command is not None:
                first.setdefault(payload["answer_id"], command)
    return [answer_of(each) for each in first.values() if each.id not in taken_up and each.expires > now]
