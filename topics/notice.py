"""The notices topic: events that are no turn. The `id` of a notice is the same if it is delivered again.

| type | key | data |
|---|---|---|
| `thread.deleted` | thread_id | `reason`: `deleted`, by somebody, or `expired`, by retention |
| `budget.reached` | the budget's name | a `BudgetReached` |
| `alert.started`, `alert.ended` | the alert's name | an `AlertOn` |
| `command.unanswered` | thread_id | `command_id`, `kind` (stop, steer, answer), `by`, and `run_id` if it is known |
| `clock.ahead` | its id | `seen`: the time of the others, `told`: that of the clock which is ahead, epoch ms |
| `audit.recorded` | its id | `who`, `token`, `address` ("" if unknown), `action`, `subject`, `outcome`; no contents |
| `store.changed` | its id, on the topic of facts | `table`, `key`, `row` (null if deleted), `n`: the largest holds |

Readers ignore types and fields that they do not know.
"""

from typing import Any, Final, NotRequired, TypedDict

from topics import json_text
from turnmill.consume import notice
from turnmill.errors import InvalidRecord, Reason

VERSION: Final = notice.VERSION
THREAD_DELETED: Final = "thread.deleted"
BUDGET_REACHED: Final = "budget.reached"
ALERT_STARTED: Final = "alert.started"
ALERT_ENDED: Final = "alert.ended"
COMMAND_UNANSWERED: Final = "command.unanswered"
CLOCK_AHEAD: Final = "clock.ahead"
AUDIT_RECORDED: Final = "audit.recorded"
STORE_CHANGED: Final = "store.changed"
NEEDED: Final[dict[str, dict[str, type]]] = {  # type -> the required fields of its data, and their types
    THREAD_DELETED: {"reason": str},
    COMMAND_UNANSWERED: {"command_id": str, "kind": str, "by": str},
    BUDGET_REACHED: {"budget": str, "level": int, "used": int, "limit": int, "unit": str, "start": int, "end": int},
    ALERT_STARTED: {"alert": str, "figure": str, "within_ms": int, "of": dict, "start": int},
    ALERT_ENDED: {"alert": str, "figure": str, "within_ms": int, "of": dict, "start": int, "end": int},
    CLOCK_AHEAD: {"seen": int, "told": int},
    STORE_CHANGED: {"n": int, "table": str, "key": str},
    AUDIT_RECORDED: dict.fromkeys(("who", "token", "address", "action", "subject", "outcome"), str),
}


class BudgetReached(TypedDict):
    """`data` of budget.reached: `level` percent of the budget's limit are used in the window from `start` to `end`."""

    budget: str  # its name
    level: int  # 80 | 100
    used: int  # at the time of the notice
    limit: int
    unit: str  # tokens | nano_usd: 10⁻⁹ US dollars
    per: str  # hour | day | month, of UTC
    start: int  # epoch ms
    end: int
    answer_id: NotRequired[str]  # id of the question whether more may be used, if the budget asks
    agent: NotRequired[str]  # the agent or model that the budget is limited to, besides the record's tenant
    model: NotRequired[str]
    labels: NotRequired[dict[str, str]]  # those of the runs that it is limited to


class AlertOn(TypedDict):
    """`data` of alert.started and alert.ended: since `start` a figure of the last `within_ms` is beyond a threshold."""

    alert: str  # its name
    figure: str  # cost_usd | error_rate | ttft_p95_ms | duration_p95_ms | feedback
    feedback: NotRequired[str]  # the name of the feedback whose mean is the figure
    above: NotRequired[float]  # the threshold; either of both
    below: NotRequired[float]
    value: float  # of the figure, when it was beyond the threshold last
    within_ms: int
    of: dict[str, str]  # what it is limited to, and which tenant, agent, user and so on it is about
    start: int  # epoch ms
    end: NotRequired[int]


class NoticeRecord(TypedDict):
    """Value of the notices topic; the key is thread_id if there is one, else a budget's or alert's name, or the id."""

    v: int
    id: str
    type: str
    at: int  # epoch ms
    data: dict[str, Any]
    tenant: NotRequired[str]
    thread_id: NotRequired[str]


def key_of(record: NoticeRecord) -> bytes:
    """Return the record's key."""
    return (subject_of(record) or record["id"]).encode("utf-8", "replace")


def subject_of(record: NoticeRecord) -> str:
    """Return what a notice is about, whose notices stay in order: a thread, a budget or an alert; "" for others."""
    data = record["data"]
    return str(record.get("thread_id") or data.get("budget") or data.get("alert") or "")


def encode(record: NoticeRecord) -> bytes:
    """Return the record's value."""
    return json_text.encoded(record)


def decode(data: bytes | None) -> NoticeRecord:
    """Return the NoticeRecord in a record's value. Raises InvalidRecord, also if `data` does not fit a known type."""
    record = notice.record_of(data)
    needed = NEEDED.get(record["type"], {})
    wrong = [name for name, kind in needed.items() if type(record["data"].get(name)) is not kind]
    if record["type"] in (THREAD_DELETED, COMMAND_UNANSWERED) and not record.get("thread_id"):
        wrong.append("thread_id")
    if wrong:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"{record['type']} without {', '.join(wrong)}, or of another kind")
    return record  # type: ignore[return-value]  # checked above
