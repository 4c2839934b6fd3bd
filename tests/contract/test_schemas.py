"""Schemas of the topics' records: as the code has them, true of real records, and the same to programs of before."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from docs.schemas import texts
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.gateway.control.commands import new_command
from pipeline.stores.outbound.notices import deleted
from tests.same_bytes import START, THREAD_ID, streams
from tests.support.schema_compatibility import Comparison
from topics import notice, state, telemetry, turn_record
from topics.catalog import (
    CATALOG,
    CONTROL,
    DEAD_LETTERS,
    EVENTS,
    FACTS,
    FEEDBACK,
    NOTICES,
    STATE,
    TELEMETRY,
    TURNS,
    Topic,
)
from topics.dead_letter import DeadLetter
from topics.record_schemas import packaged
from topics.state import Closed, Segment
from topics.thread_key import ThreadKey
from turnmill.errors import Reason
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode
from turnmill.wire.framing import decode

SCHEMAS = Path(__file__).parents[2] / "topics" / "schemas"
RELEASED = sorted((Path(__file__).parent / "released_schemas").glob("*.json"))


def schema_of(topic: Topic) -> dict[str, Any]:
    return dict(json.loads(packaged(topic)))


def problems(topic: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What breaks programs of before: those that write events, and those that read the others."""
    return (Comparison(now, before) if topic == EVENTS.name else Comparison(before, now)).problems()


def test_files_match_the_code() -> None:
    assert {path.name: path.read_text("utf-8") for path in SCHEMAS.iterdir()} == texts(), "run `make docs`"


@pytest.mark.parametrize("topic", CATALOG, ids=lambda topic: topic.name)
def test_each_is_a_schema_that_validators_take(topic: Topic) -> None:
    jsonschema_rs.meta.validate(schema_of(topic))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.name)
def test_programs_of_the_release_before_go_on(path: Path) -> None:
    now = SCHEMAS / path.name
    if not now.exists():
        pytest.fail(f"{path.name} was released: records of that version are still on the topics")
    found = problems(
        path.name.partition(".")[0], json.loads(path.read_text("utf-8")), json.loads(now.read_text("utf-8"))
    )
    assert found == [], "give the records a new version, or keep what was there"


def test_real_records_are_as_the_schemas_say() -> None:
    validators = {topic.name: jsonschema_rs.validator_for(schema_of(topic)) for topic in CATALOG}
    seen = dict.fromkeys(validators, 0)

    def look(topic: Topic, value: Any) -> None:
        seen[topic.name] += 1
        for error in validators[topic.name].iter_errors(value):
            pytest.fail(f"{topic.name}: {error.instance_path}: {error.message[:500]}")

    for dialect, file in streams():
        events = [item.event for item in decode(file.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]
        envelope = {
            "v": 1,
            "thread_id": THREAD_ID,
            "run_id": "r",
            "agent_id": "a",
            "dialect": dialect,
            "tenant": "acme",
        }
        envelope |= {"seq": 0, "ts": START, "events": events, "dt": [0] * len(events)}
        try:
            value = encode(envelope)
        except RecursionError:
            continue
        look(EVENTS, json.loads(value))
        partition = Partition(DIALECTS, Limits(), 0)
        partition.feed([StoredRecord(value, 0, START, THREAD_ID.encode())])
        partition.tick(START + 10**9)
        for turn in partition.out.turns:
            look(TURNS, json.loads(turn_record.encode(turn)))
        for record in partition.out.telemetry:
            look(TELEMETRY, json.loads(telemetry.encode(record)))
        for refused in partition.out.dead:
            letter = DeadLetter(refused.reason, refused.detail, "events", 0, 0, START, None, None)
            look(DEAD_LETTERS, {name: text.decode() for name, text in letter.headers()})
    look(NOTICES, json.loads(notice.encode(deleted(ThreadKey.of(THREAD_ID, "acme"), "expired", START))))
    look(FEEDBACK, made("chat-42", "acme", {"name": "helpful", "value": True, "turn_id": "t", "by": "ann"}))
    look(FEEDBACK, made("chat-42", None, {"name": "score", "value": 0.5, "message": 3, "comment": "good"}))
    look(CONTROL, new_command("stop", (THREAD_ID, "acme"), "r", "now", "ann").record)
    changed = {"n": 7, "table": "holds", "key": THREAD_ID, "row": {"held_at": START}}
    look(FACTS, {"v": 1, "id": "fact 7", "type": "store.changed", "at": 0, "data": changed})
    run = state.RunKey("acme", THREAD_ID, "r")
    segment = Segment(0, 1, START, state.Clocks(START, None, START), [b"a", b"bc"], read=1, traceparent="00-1")
    look(STATE, json.loads(state.encode(run, segment).partition(b"\n")[0]))
    look(STATE, json.loads(state.encode(run, Closed(1, 2, complete=True, at=START))))
    assert all(count > 0 for count in seen.values()), seen


def without(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(schema: dict[str, Any]) -> None:
        for step in path[:-1]:
            schema = schema[step]
        if isinstance(schema, list):
            schema.remove(path[-1])
        else:
            del schema[path[-1]]

    return change


def adding(value: Any, *path: str) -> Callable[[dict[str, Any]], None]:
    def change(schema: dict[str, Any]) -> None:
        for step in path[:-1]:
            schema = schema[step]
        if isinstance(schema, list):
            schema.append(value)
        else:
            schema[path[-1]] = value

    return change


RECORD = ("$defs", "TurnRecord")
EVENT = ("$defs", "AgentEvent")


@pytest.mark.parametrize(
    ("topic", "change", "said"),
    [
        (TURNS, without(*RECORD, "required", "status"), "status is required"),
        (TURNS, adding({"type": "integer"}, *RECORD, "properties", "status"), "the type is string"),
        (TURNS, adding({"anyOf": [{"type": "integer"}, {"type": "null"}]}, *RECORD, "properties", "revision"), "type"),
        (TURNS, adding({}, *RECORD, "properties", "thread_id"), "the type is string"),
        (TELEMETRY, adding({"const": 2, "type": "integer"}, "$defs", "TelemetryRecord", "properties", "v"), "only [1]"),
        (DEAD_LETTERS, adding("odd", "properties", "turnmill.reason", "enum", ""), "only"),
        (EVENTS, adding("tenant", *EVENT, "required", ""), "tenant is required"),
        (EVENTS, adding(10, *EVENT, "properties", "run_id", "maxLength"), "maxLength"),
        (EVENTS, adding({"type": "integer"}, *EVENT, "properties", "dialect"), "the type is integer"),
        (EVENTS, adding({"const": 2, "type": "integer"}, *EVENT, "properties", "v"), "only [2]"),
        (EVENTS, adding(False, *EVENT, "additionalProperties"), "additional|bounded|not allowed"),
        (EVENTS, adding({"if": {}}, *EVENT, "properties", "tenant"), "can't be compared"),
    ],
)
def test_what_breaks_others_is_found(topic: Topic, change: Callable[[dict[str, Any]], None], said: str) -> None:
    before = schema_of(topic)
    now = copy.deepcopy(before)
    change(now)
    found = problems(topic.name, before, now)
    assert any(any(word in problem for word in said.split("|")) for problem in found), found


@pytest.mark.parametrize(
    ("topic", "change"),
    [
        (TURNS, adding({"type": "string"}, *RECORD, "properties", "new")),
        (TURNS, adding("tenant", *RECORD, "required", "")),
        (EVENTS, adding({"type": "string"}, *EVENT, "properties", "new")),
        (EVENTS, without(*EVENT, "required", "agent_id")),
        (EVENTS, adding({}, *EVENT, "properties", "dialect")),
        (DEAD_LETTERS, without("properties", "turnmill.reason", "enum", Reason.LATE_EVENT)),
    ],
)
def test_what_breaks_nobody_may_change(topic: Topic, change: Callable[[dict[str, Any]], None]) -> None:
    before = schema_of(topic)
    now = copy.deepcopy(before)
    change(now)
    assert now != before
    assert problems(topic.name, before, now) == []
