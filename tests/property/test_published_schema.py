"""The published schema of the events topic and the worker agree on what a record is."""

import json
from typing import Any

import jsonschema_rs
from hypothesis import event, example, given, settings

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from tests.support.schema_documents import documents, with_a_fault
from tests.support.toy import START, THREAD, TOYS
from topics import record_schemas
from topics.agent_event import explain
from topics.catalog import EVENTS

SCHEMA = json.loads(record_schemas.packaged(EVENTS))
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)
GOOD: dict[str, Any] = {
    "v": 1,
    "thread_id": THREAD,
    "run_id": "r",
    "agent_id": "a",
    "seq": 12,
    "ts": START,
    "dialect": "toy",
    "events": [{"type": "note", "data": {}}],
}


def comparable(document: Any) -> Any:
    """A document whose events a wire knows, and whose `dt` has as many numbers: a schema can't say either."""
    document = dict(document)
    events, dt = document.get("events"), document.get("dt")
    if isinstance(events, list):
        document["events"] = [{"type": "note", "data": each} if isinstance(each, dict) else each for each in events]
        if isinstance(dt, list):
            document["dt"] = ((dt or [0]) * (len(events) + 1))[: max(len(events), len(dt))][: len(events)]
    return document


def taken(document: Any) -> bool:
    """Whether a worker takes all of the document: it makes no dead letter, also not for the run's first record."""
    name = document.get("dialect")
    toys = {name: TOYS["toy"]} if isinstance(name, str) else TOYS
    dead = []
    for each in (document, {**document, "seq": 0} if document.get("seq") else document):
        partition = Partition(toys, Limits(), 0)
        partition.feed([StoredRecord(json.dumps(each).encode(), 0, START)])
        dead += partition.out.dead
    return not dead


@given(documents(SCHEMA))
@example({**GOOD, "seq": 12.0})
@example({**GOOD, "ts": 1768928342002.0})
@example({**GOOD, "dt": [0.0]})
@example({**GOOD, "dt": [1e300]})
@example({**GOOD, "v": 1.0, "seq": -0.0})
def test_what_the_schema_describes_is_taken(document: Any) -> None:
    document = comparable(document)
    assert VALIDATOR.is_valid(document)
    assert taken(document)
    assert explain(json.dumps(document).encode()) == []


@given(with_a_fault(SCHEMA))
@settings(max_examples=3 * settings.default.max_examples)
@example({**GOOD, "run": {"started_at": 1.5}})
@example({**GOOD, "run": {"imported": 1}})
@example({**GOOD, "run": {"traceparent": 1}})
@example({**GOOD, "v": True})
def test_both_refuse_the_same(document: Any) -> None:
    document = comparable(document)
    valid = VALIDATOR.is_valid(document)
    event(f"valid: {valid}")
    assert taken(document) is valid
    assert (explain(json.dumps(document).encode()) == []) is valid


def test_a_run_goes_on_with_numbers_written_as_floats() -> None:
    partition = Partition(TOYS, Limits(), 0)
    for seq in range(3):
        document = {**GOOD, "seq": float(seq), "ts": float(START), "dt": [float(seq)]}
        partition.feed([StoredRecord(json.dumps(document).encode(), seq, START)])
    assert partition.out.dead == []
    partition.tick(START + Limits().run_ms * 2)
    assert [turn["events"] for turn in partition.out.turns] == [3]
