"""What became of a command: a fold over what was heard of it. Pure.

    requested -> acknowledged -> ended
              -> completed       the run was over before its program had heard of it
              -> unanswered      for 30 s nobody has said that he heard; who says so later counts
              -> refused         by the program, with its reason

Only what somebody has said who could know moves a command on: its program, by an acknowledgement in the run; the end of
the run; or a gateway that saw these, by a record of the control topic. The same again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

State = Literal["requested", "acknowledged", "ended", "completed", "unanswered", "refused"]
STATES: Final[tuple[State, ...]] = get_args(State)
FINAL: Final = frozenset({"ended", "completed", "refused"})
TOLD: Final = frozenset(STATES) - {"requested"}  # a record of its own tells others
PATIENCE_MS: Final = 30_000  # for an acknowledgement


@dataclass(frozen=True, slots=True)
class Standing:
    """A command's state, since when (epoch ms), and why, where that is known."""

    state: State
    at: int
    reason: str | None = None


def requested(at: int) -> Standing:
    """Return the standing of a new command."""
    return Standing("requested", at)


def acknowledged(before: Standing, state: object, at: int, reason: str | None = None) -> Standing:
    """Return the standing after the program has said something: acknowledged, completed or refused."""
    if before.state in FINAL or state not in ("acknowledged", "completed", "refused") or before.state == state:
        return before
    return Standing(state, at, reason)


def run_ended(before: Standing, end: str, at: int) -> Standing:
    """Return the standing after the run has ended."""
    if before.state in FINAL:
        return before
    return Standing("ended" if before.state == "acknowledged" else "completed", at, end)


def told(before: Standing, state: object, at: int, reason: str | None = None) -> Standing:
    """Return the standing after a gateway's record; a final one stays."""
    behind = state == before.state or (state == "unanswered" and before.state != "requested")
    if before.state in FINAL or state not in TOLD or behind:
        return before
    return Standing(state, at, reason)


def waited(before: Standing, now: int) -> Standing:
    """Return the standing at a time: nobody has answered for too long."""
    if before.state != "requested" or now < before.at + PATIENCE_MS:
        return before
    return replace(before, state="unanswered", at=now)
