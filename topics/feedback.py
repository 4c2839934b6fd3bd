"""The feedback topic: judgements of threads, turns and messages by people and programs."""

from typing import NotRequired, TypedDict

from turnmill.wire import feedback_record

VERSION = feedback_record.VERSION
LEFT_OUT = ("v", "tenant", "thread_id", "by_id")  # fields of the document contain them, or nobody can read them


class FeedbackRecord(TypedDict):
    """Value of the feedback topic; the key is thread_id. Of several records with one `id`, the last counts."""

    v: int
    id: str  # of the feedback, within its thread
    thread_id: str
    name: str  # what is judged
    value: float | str | bool | None  # null withdraws it
    at: int  # epoch ms
    tenant: NotRequired[str]
    turn_id: NotRequired[str]  # without it and run_id: the whole thread
    run_id: NotRequired[str]
    message: NotRequired[int]  # the index of a message in the turn
    comment: NotRequired[str]
    by: NotRequired[str]  # the author
    by_id: NotRequired[str]  # who that is to the gateway that took it, since names may be equal


def decode(data: bytes | None) -> FeedbackRecord:
    """Record value -> FeedbackRecord. Raises InvalidRecord."""
    return feedback_record.record_of(data)  # type: ignore[return-value]  # checked there


def shown(record: FeedbackRecord) -> dict[str, object]:
    """Return a record as documents have it under `meta:feedback`."""
    return {name: value for name, value in record.items() if name not in LEFT_OUT}
