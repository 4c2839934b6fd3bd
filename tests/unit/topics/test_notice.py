"""Notices on their way to the topic and back."""

from typing import Any

import orjson
import pytest

from topics import notice
from topics.catalog import NOTICES
from turnmill.consume.notice import TOPIC, notice_of
from turnmill.errors import InvalidRecord

DELETED = {"v": 1, "id": "n", "type": "thread.deleted", "at": 5, "thread_id": "t", "data": {"reason": "expired"}}
REACHED = {
    "v": 1,
    "id": "b",
    "type": "budget.reached",
    "at": 5,
    "tenant": "acme",
    "data": {
        "budget": "acme",
        "level": 80,
        "used": 8,
        "limit": 10,
        "unit": "tokens",
        "per": "day",
        "start": 0,
        "end": 9,
    },
}

STARTED = {
    "v": 1,
    "id": "a",
    "type": "alert.started",
    "at": 5,
    "data": {"alert": "costs", "figure": "cost_usd", "above": 1, "value": 2.5, "within_ms": 9, "of": {}, "start": 5},
}


@pytest.mark.parametrize("record", [DELETED, REACHED, STARTED, DELETED | {"type": "of a later version", "data": {}}])
def test_back_and_forth(record: dict[str, Any]) -> None:
    data = notice.encode(record)  # type: ignore[arg-type]
    assert notice.decode(data) == record
    assert notice_of(data).tenant == record.get("tenant")


def test_keys() -> None:
    assert notice.key_of(DELETED) == b"t"  # type: ignore[arg-type]
    assert notice.key_of(REACHED) == b"acme"  # type: ignore[arg-type]
    assert notice.key_of(STARTED) == b"costs"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        DELETED | {"data": {}},
        {name: value for name, value in DELETED.items() if name != "thread_id"},
        STARTED | {"data": STARTED["data"] | {"of": []}},  # type: ignore[operator]
        STARTED | {"type": "alert.ended"},
        REACHED | {"data": REACHED["data"] | {"level": "80"}},  # type: ignore[operator]
        REACHED | {"data": REACHED["data"] | {"limit": True}},  # type: ignore[operator]
    ],
)
def test_what_does_not_fit_its_type(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        notice.decode(orjson.dumps(record))


def test_a_tenant_whose_name_is_no_utf_8() -> None:
    record = DELETED | {"tenant": "\ud800"}
    assert notice.decode(notice.encode(record)) == record  # type: ignore[arg-type]


def test_the_client_knows_the_topic() -> None:
    assert NOTICES.name == TOPIC
