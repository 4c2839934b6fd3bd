"""Feedback in a run's own stream: records of the feedback topic, the same however often its events are read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.results import Out
from pipeline.dialects import DIALECTS
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.redaction_rules import rules_of
from tests.property.records import Envelope, deliveries, envelope
from tests.support.assembled import START, THREAD_ID
from turnmill.wire.envelope import encode
from turnmill.wire.feedback_record import record_of

SAID: dict[str, Any] = {"name": "helpful", "value": True, "comment": "mail ann@example.com"}
TEXT: list[Any] = [
    {"type": "start", "messageId": "m"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "hello"},
    {"type": "text-end", "id": "t"},
]


def out_of(records: list[Envelope], limits: Limits = Limits(), **options: Any) -> Out:  # noqa: B008  # it is frozen
    partition = Partition(DIALECTS, limits, 0, **options)
    partition.feed([StoredRecord(encode(one), number, START + number) for number, one in enumerate(records)])
    return partition.out


def said(data: Any, *, run: dict[str, Any] | None = None, **fields: Any) -> Out:
    events = [*TEXT, {"type": "data-feedback", "data": data, **fields}, {"type": "finish"}]
    return out_of([{**envelope("vercel-ai", events, 0, run), "end": "complete"}])


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("vercel-ai", {"type": "data-feedback", "data": SAID}),
        ("ag-ui", {"type": "CUSTOM", "name": "data-feedback", "value": SAID}),
        ("langgraph", {"event": "custom", "data": {"type": "data-feedback", "data": SAID}}),
        ("pydantic-ai", {"event_kind": "custom", "name": "feedback", "data": SAID}),
    ],
)
def test_every_wire_that_has_events_of_its_own_carries_it(dialect: str, event: dict[str, Any]) -> None:
    out = out_of([{**envelope(dialect, [event], 0), "end": "complete"}])
    assert out.dead == []
    (record,) = out.feedback
    assert record.items() >= {**SAID, "v": 1, "thread_id": THREAD_ID, "run_id": "run-1", "at": START}.items()
    assert record_of(encode({**record})) == record
    assert "data-feedback" not in [one["type"] for one in out.telemetry]


def test_what_it_is_about() -> None:
    assert said(SAID).feedback[0]["run_id"] == "run-1"
    assert said({**SAID, "run_id": "other"}).feedback[0]["run_id"] == "other"
    of_turn = said({**SAID, "turn_id": "t", "message": 0}).feedback[0]
    assert ("run_id" in of_turn, of_turn["turn_id"], of_turn["message"]) == (False, "t", 0)
    assert not {"run_id", "turn_id"} & {*said({**SAID, "run_id": None}).feedback[0]}
    stranger = said({**SAID, "thread_id": "x", "tenant": "globex", "at": 1, "v": 7}).feedback[0]
    assert (stranger["thread_id"], stranger["v"], "tenant" in stranger) == (THREAD_ID, 1, False)


def test_a_part_that_is_replaced_replaces_what_it_said() -> None:
    first, second = (said({**SAID, "value": value}, id="f").feedback[0] for value in (False, True))
    assert first["id"] == second["id"] != said(SAID, id="g").feedback[0]["id"]
    assert said({**SAID, "id": "own"}, id="f").feedback[0]["id"] == "own"


@pytest.mark.parametrize(
    "data", [None, [], "good", {}, {"name": "n"}, {"name": "n", "value": []}, {"name": "", "value": 1}]
)
def test_what_is_no_feedback_is_a_dead_letter_and_stops_nothing(data: Any) -> None:
    out = said(data)
    (letter,) = out.dead
    assert (letter.reason.value, letter.detail[:14]) == ("invalid_event", "data-feedback:")
    assert out.feedback == []
    assert [turn["status"] for turn in out.turns] == ["complete"]


def test_the_conversation_is_what_it_was() -> None:
    kept, other = said(SAID).turns[0]["turn"], said(SAID, transient=True).turns[0]["turn"]
    assert kept is not None
    assert other is not None
    assert [one["event_type"] for one in kept["messages"] if one["message_type"] == "system"] == ["data-feedback"]
    assert [one["message_type"] for one in other["messages"]] == ["response"]


def test_an_imported_run_has_it_redaction_is_applied_and_it_can_be_off() -> None:
    events = [*TEXT, {"type": "data-feedback", "data": SAID}]
    record = envelope("vercel-ai", events, 0, {"imported": True})
    assert len(out_of([record]).feedback) == 1
    redaction = Redaction(rules_of("email"))
    (redacted,) = out_of([record], polish_telemetry=redaction.telemetry).feedback
    assert redacted["comment"] == "mail [email]"
    off = out_of([record], Limits(feedback=False))
    assert (off.feedback, off.dead) == ([], [])


@given(st.data())
def test_the_same_events_again_say_nothing_twice(data: st.DataObject) -> None:
    """A worker that died has read some of the records; the next one reads them again, from any offset back."""
    events = [*TEXT]
    for number in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(1, len(events)))
        events.insert(at, {"type": "data-feedback", "data": {"name": "score", "value": number}, "transient": True})
    log = data.draw(deliveries("vercel-ai", events))
    whole = out_of(log).feedback
    assert sorted(one["value"] for one in whole) == list(range(len(events) - len(TEXT)))
    before = out_of(log[: data.draw(st.integers(0, len(log)))]).feedback
    assert {one["id"]: one for one in [*before, *whole]} == {one["id"]: one for one in whole}
    assert len({one["id"] for one in whole}) == len(whole)
