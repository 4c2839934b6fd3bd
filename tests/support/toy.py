"""A wire protocol with one event of each sort, for tests of what lies around the dialects; and its records."""

from typing import Any

import orjson

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect, StreamEnd, Violation
from pipeline.assembly.offline import assemble
from pipeline.assembly.records import StoredRecord
from topics import turn_record
from topics.turn_record import TurnRecord
from turnmill.wire.envelope import encode
from turnmill.wire.registry import Wire

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
START = 1_768_928_342_002
Event = dict[str, Any]
Envelope = dict[str, Any]


def _text(builder: Builder, event: Event) -> None:
    """One whole text part."""
    said = str(event["text"])
    builder.text_start("t").chunks.append(said)
    builder.text_end("t")


def _open(builder: Builder, event: Event) -> None:
    builder.text_start(event["id"])


def _delta(builder: Builder, event: Event) -> None:
    builder.open_text[event["id"]].chunks.append(event["delta"])


def _shut(builder: Builder, event: Event) -> None:
    builder.text_end(event["id"])


def _step(builder: Builder, event: Event) -> None:
    builder.close_response()


def _note(builder: Builder, event: Event) -> None:
    """Any JSON at all, kept as it is."""
    builder.system("data-app-note", event["data"])


def _usage(builder: Builder, event: Event) -> None:
    builder.sys_event("data-sys-usage", event["data"])


def _result(builder: Builder, event: Event) -> None:
    """Tokens that no data-sys-usage event carries."""
    builder.usage(event["usage"])


def _finish(builder: Builder, event: Event) -> None:
    builder.close_response()
    builder.ended = event.get("as", "complete")


def _refuse(builder: Builder, event: Event) -> None:
    raise Violation("this never is right")


def _bare(builder: Builder, event: Event) -> None:
    raise KeyError


def _poison(builder: Builder, event: Event) -> None:
    """What is no text, where `finish` will want to join texts."""
    builder.text_start("t").chunks.append(7)  # type: ignore[arg-type]
    builder.text_end("t")


def _unknown(builder: Builder, event: Event) -> None:
    if not isinstance(event["type"], str):
        raise TypeError
    builder.system(event["type"], {key: value for key, value in event.items() if key != "type"})


def _begin(builder: Builder) -> None:
    if builder.context.request == "boom":
        raise TypeError("a request of the wrong shape")
    if builder.context.request is not None:
        builder.user_turn([{"part_kind": "user-prompt", "content": builder.context.request}])


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    if isinstance(event, dict) and event.get("type") == "finish":
        found: StreamEnd = event.get("as", "complete")
        return found
    return before


TOY = Dialect(
    "toy",
    Wire(),
    {
        "text": _text,
        "open": _open,
        "delta": _delta,
        "shut": _shut,
        "step": _step,
        "note": _note,
        "usage": _usage,
        "result": _result,
        "finish": _finish,
        "refuse": _refuse,
        "bare": _bare,
        "poison": _poison,
    },
    _unknown,
    _begin,
    ended=_ended,
)
OTHER = Dialect("other", Wire(), {}, _unknown)
TOYS = {"toy": TOY, "other": OTHER}


def text(*words: str) -> list[Event]:
    return [{"type": "text", "text": word} for word in words]


def envelope(seq: int, events: list[Any], **more: Any) -> Envelope:
    """A record of run "r"; event n of a run happens n × 100 ms after its start."""
    fixed = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "seq": seq, "ts": START + 100 * seq}
    return {**fixed, "dialect": "toy", "events": events, "dt": [100 * n for n in range(len(events))], **more}


class Log:
    """A partition of the events topic; `at` is the broker's time in ms behind START."""

    def __init__(self) -> None:
        self.records: list[StoredRecord] = []

    def add(self, value: Envelope | bytes | None, at: int = 0, **more: Any) -> StoredRecord:
        data = encode(value) if isinstance(value, dict) else value
        record = StoredRecord(data, len(self.records), START + at, THREAD.encode(), **more)
        self.records.append(record)
        return record


def right(envelopes: list[Envelope]) -> list[bytes]:
    """The records of a run's turns, from assembly without a broker."""
    return [turn_record.encode(record) for record in assemble(TOYS[envelopes[0]["dialect"]], envelopes)[0]]


def said(record: TurnRecord) -> bytes:
    """A turn record without its revision."""
    return orjson.dumps({**record, "revision": 0})
