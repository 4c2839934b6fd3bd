"""The record and the notice by which a gateway reports the state of a command. Pure."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from pipeline.policies.command_states import CommandStatus
from topics import control, notice
from topics.notice import COMMAND_UNANSWERED, NoticeRecord
from turnmill.control.record import STATE, Command

BY: Final = "gateway"


def state_record(command: Command, standing: CommandStatus) -> dict[str, Any]:
    """Return the record that tells other gateways, and publishers, the state of a command."""
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
