"""The notices topic: occurrences that are no turn, each with an `id` that stays the same when it comes again.

| type | key | data |
|---|---|---|
| `thread.deleted` | thread_id | `reason`: `deleted`, by somebody; `expired`, as its retention is over |
| `budget.reached` | the budget's name | a `BudgetReached` |
| `command.unanswered` | thread_id | `command_id`, `kind` (stop, steer, answer), `by`, and `run_id` where it is known |
| `audit.recorded` | its id | an `AuditRecorded`, where webhooks are on |

Readers ignore types and fields that they do not know.
"""

from __future__ import annotations

from typing import Any, Final, NotRequired, TypedDict

import orjson

from topics import json_text
from turnmill import notice
from turnmill.errors import InvalidRecord, Reason

VERSION: Final = notice.VERSION
THREAD_DELETED: Final = "thread.deleted"
BUDGET_REACHED: Final = "budget.reached"
COMMAND_UNANSWERED: Final = "command.unanswered"
AUDIT_RECORDED: Final = "audit.recorded"
NEEDED: Final[dict[str, dict[str, type]]] = {  # type -> the fields of its data, and their kinds
    THREAD_DELETED: {"reason": str},
    COMMAND_UNANSWERED: {"command_id": str, "kind": str, "by": str},
    BUDGET_REACHED: {"budget": str, "level": int, "used": int, "limit": int, "unit": str, "start": int, "end": int},
    AUDIT_RECORDED: dict.fromkeys(("who", "token", "address", "action", "subject", "outcome"), str),
}


class BudgetReached(TypedDict):
    """`data` of budget.reached: `level` per cent of the budget's limit were used between `start` and `end`."""

    budget: str  # its name
    level: int  # 80 | 100
    used: int  # when that was seen
    limit: int
    unit: str  # tokens | nano_usd: 10⁻⁹ US dollars
    per: str  # hour | day | month, of UTC
    start: int  # epoch ms
    end: int
    answer_id: NotRequired[str]  # of the question whether more may be used, where the budget asks
    agent: NotRequired[str]  # what the budget is bound to, beside the record's tenant
    model: NotRequired[str]


class AuditRecorded(TypedDict):
    """`data` of audit.recorded: who did what, to what; ids and names, never contents."""

    who: str  # "" of somebody unknown
    token: str  # the id of their token or session, "" without one
    address: str  # where they called from, "" on the command line
    action: str
    subject: str
    outcome: str  # done | failed | refused


class NoticeRecord(TypedDict):
    """Value of the notices topic; the key is thread_id where there is one, else the budget's name, or the id."""

    v: int
    id: str
    type: str
    at: int  # epoch ms
    data: dict[str, Any]
    tenant: NotRequired[str]
    thread_id: NotRequired[str]


def key_of(record: NoticeRecord) -> bytes:
    """Return the record's key."""
    return str(record.get("thread_id") or record["data"].get("budget") or record["id"]).encode("utf-8", "replace")


def encode(record: NoticeRecord) -> bytes:
    """Return the record's value."""
    try:
        return json_text.trimmed(orjson.dumps(record))
    except TypeError:  # lone surrogates in a tenant's name
        return json_text.dumps(record).encode()


def decode(data: bytes | None) -> NoticeRecord:
    """Record value -> NoticeRecord. Raises InvalidRecord, also for data that does not fit a known type."""
    record = notice.record_of(data)
    needed = NEEDED.get(record["type"], {})
    wrong = [name for name, kind in needed.items() if type(record["data"].get(name)) is not kind]
    if record["type"] in (THREAD_DELETED, COMMAND_UNANSWERED) and not record.get("thread_id"):
        wrong.append("thread_id")
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"{record['type']} without {', '.join(wrong)}, or of another kind")
    return record  # type: ignore[return-value]  # checked above
