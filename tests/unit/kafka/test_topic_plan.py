from dataclasses import replace

import pytest

from pipeline.kafka.topic_plan import Found, Partition, Wanted, plan, wanted
from topics.catalog import CATALOG, EVENTS, STATE, TURNS

WANT = Wanted("t.events", 4, 1, {"retention.ms": "1000", "cleanup.policy": "delete"})


def found(partitions: int = 4, replicas: int = 1, **config: str) -> dict[str, Found]:
    rows = tuple(Partition(n, 1, tuple(range(replicas)), tuple(range(replicas))) for n in range(partitions))
    in_force = {"retention.ms": "1000", "cleanup.policy": "delete", "segment.bytes": "9", **config}
    return {WANT.name: Found(WANT.name, rows, in_force, {})}


def actions(there: dict[str, Found], *, grow: bool = False, want: Wanted = WANT) -> list[str]:
    return [change.action for change in plan([want], there, grow=grow)]


@pytest.mark.parametrize(("replication", "brokers", "copies"), [(None, 1, 1), (None, 2, 2), (None, 5, 3), (2, 5, 2)])
def test_the_catalog_is_wanted_whole(replication: int | None, brokers: int, copies: int):
    wants = wanted(CATALOG, "p", 6, replication, brokers, {})
    assert [want.name for want in wants] == [f"p.{topic.name}" for topic in CATALOG]
    assert {(want.partitions, want.replication) for want in wants} == {(6, copies)}
    assert wants[CATALOG.index(STATE)].config["cleanup.policy"] == "compact,delete"


def test_one_topic_may_be_kept_for_another_time():
    wants = {want.name: want.config for want in wanted(CATALOG, "p", 6, 1, 1, {"events": 3_600_000})}
    assert wants["p.events"] == {**EVENTS.config(), "retention.ms": "3600000"}
    assert wants["p.turns"] == TURNS.config()


def test_nothing_is_done_where_all_is_as_wanted():
    assert plan([WANT], found(), grow=True) == []


def test_a_missing_topic_is_created():
    (change,) = plan([WANT], {}, grow=False)
    assert (change.topic, change.action, change.detail) == ("t.events", "create", "4 partitions, 1 replica")


def test_a_different_value_is_configured_and_what_nobody_wants_otherwise_stays():
    (change,) = plan([WANT], found(**{"retention.ms": "5"}), grow=False)
    assert (change.action, change.detail) == ("configure", "retention.ms: 5 -> 1000")


def test_partitions_are_added_only_when_asked_and_never_removed():
    assert actions(found(partitions=2)) == ["left"]
    assert actions(found(partitions=2), grow=True) == ["grow"]
    assert actions(found(partitions=6), grow=True) == ["left"]


def test_replicas_are_reported_and_left():
    assert actions(found(replicas=2), grow=True) == ["left"]
    assert actions(found(replicas=3), want=replace(WANT, replication=3)) == []


def test_one_topic_may_differ_in_all():
    assert actions(found(2, 2, **{"cleanup.policy": "compact"}), grow=True) == ["configure", "grow", "left"]
