"""The commands that a run may receive besides stop: messages of users, and answers to its questions."""

import asyncio
from dataclasses import dataclass
from typing import Final

from turnmill.control.claims import answer_id
from turnmill.control.record import ANSWER, STEER, Command

MAX_WAITING: Final = 100  # most messages that wait until the program takes them
NO_STEERING: Final = "the program takes no messages while it runs"
TOO_MANY: Final = f"{MAX_WAITING} messages wait already"


@dataclass(frozen=True, slots=True)
class Steer:
    """A user's message to a run that is under way. `by`: its author; `command_id`: the command that contains it."""

    text: str
    by: str
    command_id: str


class Inbox:
    """The messages and answers that have come for a run."""

    __slots__ = ("_answers", "_changed", "_known", "_messages", "takes_messages")

    def __init__(self, *, takes_messages: bool) -> None:
        self.takes_messages = takes_messages
        self._known: set[str] = set()  # ids of commands, since a command may come twice
        self._messages: list[Command] = []
        self._answers: dict[str, Command] = {}  # by answer_id, the first answer to each question
        self._changed: asyncio.Event | None = None

    def put(self, command: Command) -> str | None:
        """Take a command. Return why it is refused; None if it is taken or was taken before."""
        if command.id in self._known:
            return None
        self._known.add(command.id)
        if command.kind == ANSWER:
            self._answers.setdefault(command.payload["answer_id"], command)
        elif command.kind == STEER:
            if not self.takes_messages:
                return NO_STEERING
            if len(self._messages) >= MAX_WAITING:
                return TOO_MANY
            self._messages.append(command)
        if self._changed is not None:
            self._changed.set()
        return None

    def messages(self) -> list[Command]:
        """Return the messages that came since the last call."""
        messages, self._messages = self._messages, []
        return messages

    async def answer(self, run_id: str, own_id: str) -> Command:
        """Wait for the answer to the question that has this id on the wire, and return it."""
        wanted = answer_id(run_id, own_id)
        while wanted not in self._answers:
            self._changed = self._changed or asyncio.Event()
            self._changed.clear()
            await self._changed.wait()
        return self._answers[wanted]
