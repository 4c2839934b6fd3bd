"""The state of a command, computed from the events about it. Pure.

    requested -> acknowledged -> ended
              -> completed       the run ended before its program received the command
              -> unanswered      not acknowledged for 30 s; a later acknowledgement still counts
              -> refused         by the program, with its reason

Only these events change the state: an acknowledgement in the run, by its program; the end of the run; and a record of
the control topic, by a gateway that saw one of them. A repeated event changes nothing.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

State = Literal["requested", "acknowledged", "ended", "completed", "unanswered", "refused"]
STATES: Final[tuple[State, ...]] = get_args(State)
FINAL: Final = frozenset({"ended", "completed", "refused"})
PUBLISHED_STATES: Final = STATES[1:]  # by gateways; the command itself is the request
ACKNOWLEDGE_TIMEOUT_MS: Final = 30_000  # time to wait for an acknowledgement


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """A command's state, since when (epoch ms), and the reason, if that is known."""

    state: State
    at: int
    reason: str | None = None


def requested(at: int) -> CommandStatus:
    """Return the standing of a new command."""
    return CommandStatus("requested", at)


def acknowledged(before: CommandStatus, state: object, at: int, reason: str | None = None) -> CommandStatus:
    """Return the standing after the program has published a state: acknowledged, completed or refused."""
    if before.state in FINAL or state not in ("acknowledged", "completed", "refused") or before.state == state:
        return before
    return CommandStatus(state, at, reason)


def run_ended(before: CommandStatus, end: str, at: int) -> CommandStatus:
    """Return the standing after the run has ended."""
    if before.state in FINAL:
        return before
    return CommandStatus("ended" if before.state == "acknowledged" else "completed", at, end)


def published(before: CommandStatus, state: object, at: int, reason: str | None = None) -> CommandStatus:
    """Return the standing after a gateway's record; a final state is not changed."""
    behind = state == before.state or (state == "unanswered" and before.state != "requested")
    if before.state in FINAL or state not in PUBLISHED_STATES or behind:
        return before
    return CommandStatus(state, at, reason)


def waited(before: CommandStatus, now: int) -> CommandStatus:
    """Return the standing at time `now`: unanswered, if there was no acknowledgement for too long."""
    if before.state != "requested" or now < before.at + ACKNOWLEDGE_TIMEOUT_MS:
        return before
    return replace(before, state="unanswered", at=now)
