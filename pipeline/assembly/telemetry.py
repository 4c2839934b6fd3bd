"""Telemetry records of a run: those that it streamed, and those derived from its finished turns.

`seq` identifies a record in its run, the same at every replay: streamed events are numbered by the events read so far,
derived ones by their response, so that a reopened turn does not count its tokens again.

Feedback in the stream of a run: an event `data-feedback` becomes a record of the feedback topic. Its data are the
fields of that record, except those known from the run: {"name", "value", "comment"?, "by"?, "id"?, "turn_id"?,
"run_id"?, "message"?}. It is about its own run, unless it names a turn, or another run; with `run_id` null, about the
whole thread. Without an `id`, it gets one from its position in the run, the same at every replay.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message
from pipeline.assembly.records import Record, Refused, StoredRecord
from pipeline.assembly.run import Run
from pipeline.turns import tokens
from pipeline.turns.asides import is_aside
from topics.feedback import FeedbackRecord
from topics.json_text import Fields
from topics.part_kinds import CALLS
from topics.telemetry import OPEN_USAGE, VERSION, TelemetryRecord
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason
from turnmill.identity import turn_id
from turnmill.wire.envelope import decode
from turnmill.wire.feedback_record import FIELDS, problem_of
from turnmill.wire.feedback_record import VERSION as FEEDBACK_VERSION

PER_RECORD: Final = 1 << 16  # greater than the number of events of a record
DERIVED: Final = 1 << 48
OPEN: Final = 1 << 47
ASIDE: Final = 1 << 46  # added to the number of a response beside the answer
ERRORS: Final = ("error", "validation_error")
FEEDBACK: Final = "data-feedback"
OF_THE_RUN: Final = ("v", "thread_id", "tenant", "at")


def streamed_records(run: Run) -> list[TelemetryRecord]:
    """Remove from the builder, and return, the data-sys-* and data-feedback events of the record just applied.

    An imported run has feedback only, since telemetry is about the present.
    """
    events, run.builder.telemetry = run.builder.telemetry, []
    if run.builder.context.imported:
        events = [event for event in events if event[1] == FEEDBACK]
    base = run.next * PER_RECORD
    return [_record(run.builder, base + n, at, kind, data) for n, (at, kind, data) in enumerate(events)]


def closing_records(run: Run, builder: Builder, turns: list[TurnRecord]) -> list[TelemetryRecord]:
    """Return tokens that no data-sys-usage event had, a record per response, and a data-sys-turn record per turn.

    `builder` is the one that `turns` were made of: a copy, if the run may go on. Responses are counted as they came, so
    that one that an interrupted turn leaves out keeps its number, and its tokens, which were spent. Records about
    sub-agents belong to the threads of these. An imported run has none.
    """
    if run.builder.context.imported:
        return []
    responses = _responses(builder)
    of_run = responses if builder is run.builder else _responses(run.builder)
    streamed = {n for n, message in enumerate(of_run) if message.usage_streamed}
    spoken = [message.fields for message in responses]
    native = [message for turn in builder.native for message in turn.get("messages") or () if _is_response(message)]
    records = _of_asides(builder)
    for number, fields in enumerate([*spoken, *native]):
        if number not in streamed and isinstance(fields.get("usage"), dict) and fields["usage"]:
            records.append(_derived(run.builder, number, "data-sys-usage", tokens.normal(fields["usage"]), fields))
    for child in builder.children:
        records += _of_asides(child)
        for number, message in enumerate(_responses(child)):
            fields = message.fields
            if isinstance(fields.get("usage"), dict) and fields["usage"]:
                records.append(_derived(child, number, "data-sys-usage", tokens.normal(fields["usage"]), fields))
    children = {(child.context.thread_id, child.context.run_id): child for child in builder.children}
    for ordinal, record in enumerate(turns):
        turn = record["turn"]
        if turn is not None and turn.get("turn_type") == "agent":
            number = PER_RECORD + ordinal + (record["revision"] << 20)
            own_builder = children.get((record["thread_id"], record["run_id"]), run.builder)
            records.append(_derived(own_builder, number, "data-sys-turn", _summary(record, turn), {}))
    return records


def open_record(run: Run, builder: Builder) -> TelemetryRecord:
    """Return the usage of each response so far of an open run; `closing_records` will report it again.

    A sum of them would have no price where the price depends on the size of each call. `builder` is a copy. The newest
    response is left out, since its usage may still grow.
    """
    thread_id = run.builder.context.thread_id
    calls = [record for record in closing_records(run, builder, []) if record["thread_id"] == thread_id][:-1]
    used = [
        {"model_name": call.get("model_name"), "provider_name": call.get("provider_name"), **call["data"]}
        for call in calls
    ]
    return _record(run.builder, OPEN + run.next, builder.last_at, OPEN_USAGE, {"used": used})


def polished(
    run: Run, records: Iterable[TelemetryRecord], polish: Callable[[TelemetryRecord], TelemetryRecord], last: Record
) -> Iterator[TelemetryRecord]:
    """Yield the records after `polish`; if that fails, add the raw record of the event to the run's refusals.

    A derived record has no raw record, and is left out: the turn has its data. `last`: the last record applied.
    """
    for record in records:
        try:
            yield polish(record)
        except Exception as error:  # a rule that fails at this event must not stop the others
            if not record.get("derived"):
                detail = f"{record['type']} can't be redacted: {type(error).__name__}: {error}"
                run.refusals.append(Refused(raw_record(run, record, last), Reason.UNPROCESSABLE, detail))


def raw_record(run: Run, wanted: TelemetryRecord, last: Record) -> Record:
    """Return the record that contained an event: usually the last one, else an early one that had waited."""
    for value in (last.value or b"", *reversed(run.unspilled)):
        with suppress(InvalidRecord, RecursionError):
            events = decode(value)["events"]
            if any(isinstance(event, dict) and wanted["data"] in event.values() for event in events):
                return last if value is last.value else StoredRecord(value, last.offset, last.timestamp, last.key)
    return last


def _responses(builder: Builder) -> list[Message]:
    messages = [message for turn in builder.agent_turns for message in turn.messages] + builder.messages
    return [message for message in messages if message.kind == "response"]


def _of_asides(builder: Builder) -> list[TelemetryRecord]:
    asides = [message.fields for turn in builder.agent_turns for message in turn.asides]
    asides += [message.fields for message in builder.asides]
    return [
        _derived(builder, ASIDE + number, "data-sys-usage", tokens.normal(fields["usage"]), fields)
        for number, fields in enumerate(asides)
    ]


def _is_response(message: Fields) -> bool:
    return message.get("message_type") == "response"


def _summary(record: TurnRecord, turn: Fields) -> Fields:
    parts = [part for message in turn.get("messages") or () for part in message.get("parts") or ()]
    timings = record.get("timings") or [{}]
    durations = [duration for timing in timings if (duration := timing.get("duration_ms")) is not None]
    return {
        "status": record["status"],
        "reason": (turn.get("interruption") or {}).get("reason"),
        "revision": record["revision"],
        "responses": sum(_is_response(message) and not is_aside(message) for message in turn.get("messages") or ()),
        "tool_calls": len([part for part in parts if part.get("part_kind") in CALLS]),
        "tool_errors": len([part for part in parts if part.get("status") in ERRORS]),
        "ttft_ms": timings[0].get("ttft_ms"),
        "duration_ms": sum(durations) if durations else None,
    }


def _derived(builder: Builder, number: int, kind: str, data: Any, message: Fields) -> TelemetryRecord:
    record = _record(builder, DERIVED + number, builder.last_at, kind, data)
    record["derived"] = True
    if message.get("model_name"):
        record["model_name"] = message["model_name"]
    if message.get("provider_name"):
        record["provider_name"] = message["provider_name"]
    return record


def _record(builder: Builder, seq: int, at: int, kind: str, data: Any) -> TelemetryRecord:
    context = builder.context
    record: Fields = {
        "v": VERSION,
        "thread_id": context.thread_id,
        "run_id": context.run_id,
        "agent_id": context.agent_id,
        "dialect": context.dialect,
        "seq": seq,
        "ts": at,
        "type": kind,
        "data": data,
    }
    if context.tenant is not None:
        record["tenant"] = context.tenant
    if context.agent_name is not None:
        record["agent_name"] = context.agent_name
    return cast("TelemetryRecord", record | context.model())


def feedback_of(event: TelemetryRecord) -> FeedbackRecord:
    """Return the feedback of such an event, given as a telemetry record. Raises InvalidRecord."""
    data = event["data"]
    if not isinstance(data, dict):
        raise InvalidRecord(Reason.INVALID_EVENT, f"{FEEDBACK}: data is an object with name and value")
    thread_id, run_id = event["thread_id"], event["run_id"]
    record: dict[str, Any] = {"id": turn_id(thread_id, run_id, f"feedback {event['seq']}")}
    if "turn_id" not in data:
        record["run_id"] = run_id
    record |= {name: data[name] for name in FIELDS if name in data and name not in OF_THE_RUN}
    record |= {"v": FEEDBACK_VERSION, "thread_id": thread_id, "tenant": event.get("tenant"), "at": event["ts"]}
    if (problem := problem_of(record)) is not None:
        raise InvalidRecord(Reason.INVALID_EVENT, f"{FEEDBACK}: {problem}")
    return cast(
        "FeedbackRecord", {name: value for name, value in record.items() if value is not None or name == "value"}
    )
