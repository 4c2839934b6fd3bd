"""What the doctor says of what it finds."""

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from pipeline.assembly.limits import Limits
from pipeline.cli.services.checks import (
    Finding,
    clock_finding,
    cluster_findings,
    expiry_findings,
    lag_finding,
    ledger_finding,
    partitioner_finding,
    settings_findings,
    state_finding,
    stores_finding,
    topic_findings,
    wire_findings,
)
from pipeline.kafka.offsets import ClusterInfo, PartitionLag
from pipeline.kafka.partitioners import Placing, crc32, fnv1a, java, placed, unmasked
from pipeline.kafka.topic_plan import Change, Found, Partition
from pipeline.worker.repair.ledger import Ledger, RunName
from topics.catalog import CATALOG, EVENTS, STATE, Topic
from turnmill.settings import BrokerSettings

PREFIX, LIMITS = "turnmill", Limits()
GOOD = {"unclean.leader.election.enable": "false", "min.insync.replicas": "2"}


def found(topic: Topic, copies: int = 3, *, leader: int | None = 1, in_sync: int = 3, **config: Any) -> Found:
    ids = tuple(range(1, copies + 1))
    rows = tuple(Partition(n, leader, ids, ids[:in_sync], 0, 10) for n in range(2))
    values = {**topic.config(), **GOOD, **{key.replace("_", "."): value for key, value in config.items()}}
    return Found(topic.full_name("turnmill"), rows, values, {})


def topics(*others: Found) -> list[Found]:
    by_name = {topic.name: topic for topic in [*(found(topic) for topic in CATALOG), *others]}
    return list(by_name.values())


def levels(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.check) for finding in findings]


def test_all_is_well() -> None:
    assert levels(topic_findings(PREFIX, LIMITS, topics(), [], 3)) == [("ok", "topics")]
    assert state_finding(PREFIX, LIMITS, topics()) == []
    assert levels(settings_findings(LIMITS, ())) == [("ok", "settings")]
    assert clock_finding(0, 5).level == "ok"
    assert "2 brokers (a:1, b:2)" in next(cluster_findings("a:1", ClusterInfo("x", ((1, "a:1"), (2, "b:2"))))).seen


@pytest.mark.parametrize(
    ("topic", "brokers", "level", "words"),
    [
        (found(EVENTS, 1, in_sync=1), 3, "error", "1 replica on 3 brokers"),
        (found(EVENTS, unclean_leader_election_enable="true"), 3, "error", "confirmed records vanish"),
        (found(EVENTS, min_insync_replicas="1"), 3, "warning", "only one broker has"),
        (found(EVENTS, leader=None), 3, "error", "0, 1 has no leader"),
        (found(EVENTS, in_sync=2), 3, "warning", "lacks replicas in sync"),
        (found(EVENTS, retention_ms="3600000"), 3, "error", "could lose its beginning"),
        (found(EVENTS, cleanup_policy="compact"), 3, "error", "is compacted"),
        (found(EVENTS, cleanup_policy="compact,delete"), 3, "error", "is compacted"),
    ],
)
def test_what_can_lose_records(topic: Found, brokers: int, level: str, words: str) -> None:
    (finding,) = topic_findings(PREFIX, LIMITS, topics(topic), [], brokers)
    assert (finding.level, finding.check) == (level, "topic turnmill.events")
    assert words in finding.seen
    assert finding.advice


def test_two_replicas_of_which_one_is_enough() -> None:
    (finding,) = topic_findings(PREFIX, LIMITS, topics(found(EVENTS, 2, in_sync=2, min_insync_replicas="1")), [], 2)
    assert (finding.level, finding.advice) == ("warning", "set min.insync.replicas=2")


def test_topics_that_are_not_copartitioned() -> None:
    events = found(EVENTS)
    more = dataclasses.replace(events, partitions=events.partitions * 2)
    (finding,) = topic_findings(PREFIX, LIMITS, topics(more), [], 3)
    assert (finding.level, finding.check) == ("error", "partitions")
    assert "events 4, turns 2" in finding.seen
    assert "TURNMILL_PARTITIONS=4" in finding.advice


def test_the_state_topic_must_be_compacted() -> None:
    (finding,) = state_finding(PREFIX, LIMITS, topics(found(STATE, cleanup_policy="delete")))
    assert (finding.level, finding.check) == ("error", "topic turnmill.state")


def test_secrets_in_the_clear() -> None:
    assert wire_findings(BrokerSettings()) == []
    (finding,) = wire_findings(BrokerSettings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"))
    assert (finding.level, "password" in finding.seen) == ("warning", True)
    assert wire_findings(BrokerSettings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512")) == []
    (finding,) = wire_findings(BrokerSettings(oauth_token_url="http://idp/token"))
    assert "client secret" in finding.seen


@pytest.mark.parametrize(("days", "level"), [(2, "error"), (20, "warning"), (40, "ok")])
def test_certificates_that_end_soon(days: int, level: str) -> None:
    now = datetime(2026, 1, 20, tzinfo=UTC)
    (finding,) = expiry_findings({"kafka:9093": now + timedelta(days=days)}, now)
    assert (finding.level, finding.check) == (level, "certificates")
    assert expiry_findings({}, now) == []


def test_one_replica_on_one_broker_is_as_good_as_it_gets() -> None:
    alone = [found(topic, 1, in_sync=1, min_insync_replicas="1") for topic in CATALOG]
    assert levels(topic_findings(PREFIX, LIMITS, alone, [], 1)) == [("ok", "topics")]


def test_endless_retention_is_long_enough() -> None:
    assert levels(topic_findings(PREFIX, LIMITS, topics(found(EVENTS, retention_ms="-1")), [], 3)) == [("ok", "topics")]


def test_differences_from_the_catalog() -> None:
    changes = [
        Change("turnmill.events", "create", "12 partitions"),
        Change("turnmill.turns", "configure", "retention.ms: 1 -> 2"),
        Change("turnmill.state", "left", "16 partitions, not 12"),
    ]
    findings = topic_findings(PREFIX, LIMITS, [], changes, 3)
    assert [(f.level, f.seen) for f in findings] == [
        ("error", "is not there"),
        ("warning", "differs: retention.ms: 1 -> 2"),
        ("warning", "16 partitions, not 12"),
    ]


def test_topics_of_another_prefix_are_named_before_anybody_makes_new_ones() -> None:
    changes = [Change(topic.full_name("turnmil"), "create", "") for topic in CATALOG]
    (finding,) = topic_findings("turnmil", LIMITS, [], changes, 1, ["turnmill"])
    assert (finding.level, finding.seen) == ("error", "none of turnmil.* is there, but others are: turnmill.*")
    assert "TURNMILL_TOPIC_PREFIX" in (finding.advice or "")
    assert "turnmill topics apply" in (finding.advice or "")
    (finding,) = topic_findings("turnmil", LIMITS, [], changes, 1, ["a", "b", "c", "d"])
    assert finding.seen.endswith("others are: a.*, b.*, c.* …")


def test_closed_runs_must_be_remembered_for_the_dedupe_window() -> None:
    (finding,) = state_finding(PREFIX, LIMITS, topics(found(STATE, retention_ms="60000")))
    assert finding.level == "warning"
    assert "TURNMILL_DEDUPE_WINDOW (86400 s)" in finding.seen


def test_settings_that_make_no_sense_together() -> None:
    findings = settings_findings(Limits(idle_ms=7_200_000, dedupe_ms=60_000), ())
    assert [f.level for f in findings] == ["warning", "warning"]
    assert "TURNMILL_IDLE_TIMEOUT (7200 s) is over TURNMILL_RUN_TIMEOUT (3600 s)" in findings[0].seen
    assert "TURNMILL_REOPEN_WINDOW" in findings[1].seen


def test_a_group_that_runs_and_has_read_nothing_of_a_new_topic() -> None:
    finding = lag_finding("turnmill-store", "store", [PartitionLag("t", 0, None, 0, 7)], 2)
    assert (finding.level, finding.seen) == (
        "warning",
        "7 records wait for 2 running workers, of a topic that is new to the group",
    )


@pytest.mark.parametrize(
    ("clients", "stores"),
    [
        ((), 0),
        (("turnmill.aa", "turnmill.aa"), 0),
        (("turnmill.aa", "mine.bb"), 0),
        (("turnmill.aa", "turnmill.bb"), 2),
    ],
)
def test_workers_of_a_group_that_have_two_stores(clients: tuple[str, ...], stores: int) -> None:
    findings = stores_finding("turnmill-store", clients)
    assert [finding.level for finding in findings] == (["warning"] if stores else [])
    assert all(finding.seen.startswith(f"its workers name {stores} stores") for finding in findings)


def test_what_retention_removed_stays_in_the_balance() -> None:
    finding = ledger_finding(1, Ledger(3, 3, 0, {}, removed=1_200), 0, 0)
    assert finding.level == "warning"
    assert "1,200 records were removed by retention before they were read" in finding.seen


@pytest.mark.parametrize(
    ("rows", "level", "words"),
    [
        ([(10, 0, 10), (None, 0, 0)], "ok", "has read all"),
        ([(7, 0, 10), (10, 0, 10)], "ok", "3 records to read"),
        ([(None, 0, 10), (None, 0, 5)], "warning", "15 records wait, and no worker with the role store runs"),
        ([(12, 0, 3), (3, 0, 3)], "warning", "beyond the end of partition 0: its topic was made anew"),
        ([(None, 0, 0)], "ok", "has read all"),
        ([(4, 9, 10), (10, 0, 10)], "error", "5 records were removed before they were read, on partition 0"),
    ],
)
def test_how_far_a_group_has_read(rows: list[tuple[int | None, int, int]], level: str, words: str) -> None:
    lags = [PartitionLag("t", number, *row) for number, row in enumerate(rows)]
    finding = lag_finding("turnmill-store", "store", lags, 0)
    assert (finding.level, finding.check) == (level, "group turnmill-store")
    assert words in finding.seen


def test_records_ahead_of_the_clock() -> None:
    finding = clock_finding(3, 5.0)
    assert finding.level == "warning"
    assert "3 partitions hold records dated over 5 s ahead" in finding.seen


NOW = 1_800_000_000_000
LONG_AGO, JUST_NOW = NOW - 400_000, NOW - 10_000


@pytest.mark.parametrize(
    ("rest", "waiting", "level"),
    [
        ({}, 0, "ok"),
        ({(None, "t", "r"): JUST_NOW}, 0, "ok"),  # open
        ({(None, "t", "r"): LONG_AGO}, 5, "ok"),  # not read yet
        ({(None, "t", "r"): LONG_AGO, (None, "t", "s"): JUST_NOW}, 0, "error"),
    ],
)
def test_runs_that_nothing_has_become_of(rest: dict[RunName, int], waiting: int, level: str) -> None:
    finding = ledger_finding(LIMITS.idle_ms, Ledger(10 + len(rest), 8, 2, rest), waiting, NOW)
    assert finding.level == level
    assert finding.seen.startswith(f"runs {10 + len(rest)} = stored 8 + dead letters 2 + open {len(rest)}")
    assert ("r of thread t" in finding.seen) == (level == "error")


def test_runs_of_deleted_threads_are_no_loss() -> None:
    finding = ledger_finding(LIMITS.idle_ms, Ledger(10, 8, 0, {}, erased=2), 0, NOW)
    assert (finding.level, finding.seen) == ("ok", "runs 10 = stored 8 + dead letters 0 + open 0 + deleted 2")


def keys(count: int) -> list[bytes]:
    return [str(uuid5(NAMESPACE_OID, str(number))).encode() for number in range(count)]


@pytest.mark.parametrize(
    ("placing", "said"),
    [(java, "Java's clients"), (crc32, "librdkafka's"), (fnv1a, "sarama's"), (unmasked, "@platformatic/kafka")],
)
def test_the_partitioner_is_told_by_the_keys(placing: Placing, said: str) -> None:
    finding = partitioner_finding(placed([(key, placing(key, 12)) for key in keys(60)], 12))
    assert (finding.level, finding.check) == ("ok", "partitioner")
    assert said in finding.seen


def test_other_partitioners_are_not_taken_for_a_known_one() -> None:
    finding = partitioner_finding(placed([(key, sum(key) % 12) for key in keys(60)], 12))
    assert "no known partitioner" in finding.seen
    assert partitioner_finding(placed([], 12)).seen == "no records yet"
    assert "Java's" in partitioner_finding(placed([(key, 0) for key in keys(60)], 1)).seen


def test_scattered_and_missing_keys_are_warned_of() -> None:
    scattered = [(key, number % 12) for number, key in enumerate([*keys(30), *keys(29)])]
    finding = partitioner_finding(placed(scattered, 11))
    assert finding.level == "warning"
    assert "turnmill replay --thread" in finding.seen
    keyless = partitioner_finding(placed([(None, number % 12) for number in range(30)], 12))
    assert (keyless.level, "without a key" in keyless.seen) == ("warning", True)
