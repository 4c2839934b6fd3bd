"""What webhooks hear of records, and when they hear of it again."""

import json
from typing import Any

import orjson
import pytest

from pipeline.worker.webhooks.delivery import FIRST_RETRY_MS, MAX_RETRY_MS, delay
from pipeline.worker.webhooks.role import MAX_TURN_BYTES, feedback_event, notice_event, turn_event
from tests.support.turn_records import make_record
from topics.thread_key import ThreadKey

PLACE = ("turns", 3, 7)
AT = 1_768_900_000_000


def heard(**fields: Any) -> tuple[Any, Any]:
    event = turn_event(make_record(**fields), PLACE, AT)  # type: ignore[arg-type]
    assert event is not None
    return event, json.loads(event.payload)


def test_a_turn() -> None:
    event, body = heard(tenant="acme")
    record = make_record(tenant="acme")
    assert (event.type, event.tenant, event.at, event.place) == ("turn.completed", "acme", AT, PLACE)
    assert body["type"] == "turn.completed"
    assert body["timestamp"] == "2026-01-20T09:06:40.000Z"
    assert body["data"]["turn"] == record["turn"]
    assert {name: body["data"][name] for name in ("thread_id", "turn_id", "tenant")} == {
        name: record[name] for name in ("thread_id", "turn_id", "tenant")
    }
    assert heard(status="interrupted")[0].type == "turn.interrupted"


def test_the_same_record_has_the_same_id_and_a_better_one_another() -> None:
    ids = [heard(**fields)[0].id for fields in ({}, {}, {"events": 4}, {"tenant": "acme"}, {"chat": "other"})]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_a_large_turn_stays_at_home() -> None:
    event, body = heard(text="x" * MAX_TURN_BYTES)
    assert body["data"]["turn"] is None
    assert len(event.payload) < 2000


def test_facts_alone_are_no_turn() -> None:
    assert turn_event(make_record() | {"turn": None}, PLACE, AT) is None  # type: ignore[arg-type,operator]


def test_an_imported_turn_is_no_news() -> None:
    assert turn_event(make_record(imported=True), PLACE, AT) is None  # type: ignore[arg-type]


def test_names_that_are_no_utf_8() -> None:
    event, body = heard(tenant="\ud800", text="\udfff")
    assert event.lane.isascii()
    assert body["data"]["thread_id"]


def test_notices() -> None:
    record = {"v": 1, "id": "n", "type": "thread.deleted", "at": AT, "thread_id": "t", "data": {"reason": "expired"}}
    event = notice_event(record, PLACE, AT)  # type: ignore[arg-type]
    assert orjson.loads(event.payload)["data"] == {"thread_id": "t", "reason": "expired"}
    assert event.id == "n"


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_delays_grow_to_two_hours(jitter: float) -> None:
    found = [delay(n, jitter) for n in range(1, 30)]
    assert found == sorted(found)
    assert 0.8 * FIRST_RETRY_MS <= found[0] <= 1.2 * FIRST_RETRY_MS
    assert 0.8 * MAX_RETRY_MS <= found[-1] <= 1.2 * MAX_RETRY_MS


def test_feedback() -> None:
    record = {"v": 1, "id": "f1", "thread_id": "t", "tenant": "acme", "name": "helpful", "value": True, "at": AT}
    event, again = (feedback_event(record, place, AT) for place in (PLACE, ("feedback", 1, 9)))  # type: ignore[arg-type]
    assert (event.type, event.tenant, event.id == again.id) == ("feedback.given", "acme", True)
    assert event.thread == ThreadKey("t", "acme")
    assert json.loads(event.payload)["data"] == {name: value for name, value in record.items() if name != "v"}
    back = feedback_event({**record, "value": None}, PLACE, AT)  # type: ignore[typeddict-item]
    assert (json.loads(back.payload)["data"]["value"], back.id == event.id) == (None, False)
