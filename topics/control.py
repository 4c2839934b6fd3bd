"""The control topic: commands to runs that are under way, and the states of these commands.

A command names its run; an answer names the run that asked, if that is known. A record of `kind` "state" has the state
of the command `payload.command_id`; gateways write it, so that each gateway knows it after a restart.
"""

from typing import Any, NotRequired, TypedDict

from turnmill.control import record as control_record

VERSION = control_record.VERSION


class ControlRecord(TypedDict):
    """Value of the control topic; the key is thread_id."""

    v: int
    id: str
    thread_id: str
    kind: str  # stop | steer | answer | state
    by: str  # author of the command
    at: int  # epoch ms
    expires: int  # epoch ms, from which on it is ignored
    tenant: NotRequired[str]
    run_id: NotRequired[str]
    mode: NotRequired[str]  # now | after_turn
    payload: NotRequired[dict[str, Any]]
    # of a steer: text; of an answer: answer_id, value, asked?, dialect?; of a state: command_id, state, reason?


def decode(data: bytes | None) -> ControlRecord:
    """Record value -> ControlRecord. Raises InvalidRecord."""
    return control_record.record_of(data)  # type: ignore[return-value]  # checked there
