"""The doctor on a real broker: well, ill, and what is to be done."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from pipeline.cli.services.doctor import examine
from pipeline.settings import Settings
from pipeline.stores.archive.turn_archive import Entry, lake_of
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.roles import ROLES
from tests.support.commands import turnmill
from tests.support.places import ROOT
from tests.support.topic_records import configure
from tests.support.turn_records import make_record
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics import turn_record
from topics.catalog import CATALOG, EVENTS, STATE, TURNS

FLEET = ROOT / "examples" / "fleet"


async def doctor(settings: Settings, *arguments: str, **variables: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """-> (exit status, check -> the worst finding of it)."""
    done = await turnmill(settings, "doctor", "--json", *arguments, **variables)
    rank = ("ok", "warning", "error")
    findings = sorted(json.loads(done.stdout), key=lambda finding: rank.index(finding["level"]))
    return done.returncode, {finding["check"]: finding for finding in findings}


async def test_all_is_well_after_a_fleet(applied_settings: Settings) -> None:
    done = await turnmill(applied_settings, "publish", str(FLEET), str(FLEET.with_name("broken")), "--json")
    runs = json.loads(done.stdout)["runs"]
    worker = WorkerProcess(applied_settings).start()
    try:
        await wait_until_stored(applied_settings, 2 * (runs - 1), [worker])  # each with its prompt; one is refused
    finally:
        worker.stop()
    status, checks = await doctor(applied_settings)
    assert status == 0
    assert checks["balance"]["seen"] == f"runs {runs} = stored {runs - 1} + dead letters 1 + open 0"
    prefix = applied_settings.topic_prefix
    for check in (
        *("settings", "broker", "topics", "clock", "store"),
        f"group {prefix}-assemble",
        f"group {prefix}-store",
    ):
        assert checks[check]["level"] == "ok", checks[check]
    assert checks["dead letters"]["level"] == "warning"
    assert "1 of" not in checks["store"]["seen"]
    text = (await turnmill(applied_settings, "doctor")).stdout
    assert "→ `turnmill dlq list`" in text


async def test_what_a_worker_would_refuse_at_start(applied_settings: Settings) -> None:
    status, checks = await doctor(applied_settings, TURNMILL_REDACT="no-such-rule")
    assert (status, checks["settings"]["level"]) == (1, "error")
    assert "no built-in rule 'no-such-rule'" in checks["settings"]["seen"]
    assert checks["topics"]["level"] == "ok"


async def test_before_anything_has_run(applied_settings: Settings) -> None:
    await turnmill(applied_settings, "publish", str(FLEET / "weather"))
    status, checks = await doctor(applied_settings)
    assert status == 0
    group = checks[f"group {applied_settings.topic_prefix}-assemble"]
    assert (group["level"], "no worker with the role assemble" in group["seen"]) == ("warning", True)
    assert checks["store"]["level"] == "warning"
    assert not (applied_settings.home / "threads.db").exists()  # looked at, not made


async def test_runs_of_which_nothing_has_become_are_an_error(
    applied_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a worker had committed what it never delivered."""
    await turnmill(applied_settings, "publish", str(FLEET / "librarian" / "books-late-1.sse"))
    async with await ThreadStore.open(applied_settings.store_url):
        pass
    for role, topic in (("assemble", EVENTS), ("store", TURNS)):
        places = [
            TopicPartition(topic.full_name(applied_settings.topic_prefix), n)
            for n in range(applied_settings.partitions)
        ]
        group = ROLES[role].group(applied_settings)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=applied_settings.brokers, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign(places)
        await consumer.commit(await consumer.end_offsets(places))
        await consumer.stop()

    still_open = {finding.check: finding for finding in await examine(applied_settings)}["balance"]
    assert (still_open.level, still_open.seen) == ("ok", "runs 1 = stored 0 + dead letters 0 + open 1")
    monkeypatch.setattr("pipeline.cli.services.checks.SLACK_MS", -10_000_000)  # later, all this is no longer new
    lost = {finding.check: finding for finding in await examine(applied_settings)}["balance"]
    assert lost.level == "error"
    assert "books-late-1 of thread" in lost.seen


async def test_missing_topics(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobodys(_: Settings) -> list[str]:
        return []

    with monkeypatch.context() as alone:  # other tests have topics on this broker
        alone.setattr("pipeline.cli.services.doctor.prefixes", nobodys)
        checks = {finding.check: finding for finding in await examine(settings)}
    missing = checks[f"topic {EVENTS.full_name(settings.topic_prefix)}"]
    assert (missing.level, missing.seen) == ("error", "is not there")
    assert "turnmill topics apply" in (missing.advice or "")


async def test_topics_of_another_prefix(applied_settings: Settings) -> None:
    status, checks = await doctor(applied_settings.model_copy(update={"topic_prefix": "no-such"}))
    assert status == 1
    assert checks["topics"]["seen"].startswith("none of no-such.* is there, but others are: ")


async def test_topics_that_others_have_changed(applied_settings: Settings) -> None:
    name = {topic: topic.full_name(applied_settings.topic_prefix) for topic in CATALOG}
    await configure(applied_settings, EVENTS, {"retention.ms": "60000"})
    await configure(applied_settings, STATE, {"cleanup.policy": "delete"})
    client = AIOKafkaAdminClient(bootstrap_servers=applied_settings.brokers)
    await client.start()
    try:
        await client.create_partitions({name[TURNS]: NewPartitions(6)})
    finally:
        await client.close()

    async def noticed() -> tuple[int, dict[str, Any]] | None:
        status, checks = await doctor(applied_settings)
        return (status, checks) if "partitions" in checks else None

    status, checks = await until(noticed)  # brokers learn of it a moment later
    assert status == 1
    assert "could lose its beginning" in checks[f"topic {name[EVENTS]}"]["seen"]
    assert "is not compacted" in checks[f"topic {name[STATE]}"]["seen"]
    assert "turns 6" in checks["partitions"]["seen"]
    assert "turnmill topics apply --grow" in checks["partitions"]["advice"]


async def test_nobody_there_and_settings_that_are_none(settings: Settings) -> None:
    status, checks = await doctor(settings, TURNMILL_BROKERS="127.0.0.1:1")
    assert status == 1
    assert "no Kafka broker answers at 127.0.0.1:1" in checks["broker"]["seen"]
    assert checks["store"]["level"] == "warning"  # the rest is looked at all the same
    status, checks = await doctor(settings, TURNMILL_PARTITION="3")
    assert status == 1
    assert checks["settings"]["seen"].startswith("TURNMILL_PARTITION is no setting of Turnmill")


async def test_a_store_that_does_not_fit(applied_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database, " * 100)
    status, checks = await doctor(applied_settings, TURNMILL_STORE=f"sqlite:///{tmp_path}/notes.db")
    assert status == 1
    assert checks["store"]["level"] == "error"


async def test_an_archive_of_tables(applied_settings: Settings, tmp_path: Path) -> None:
    place = f"iceberg+{(tmp_path / 'lake').as_uri()}"
    _, checks = await doctor(applied_settings, TURNMILL_ARCHIVE=place)
    assert (checks["archive"]["level"], "no tables yet" in checks["archive"]["seen"]) == ("warning", True)
    assert not (tmp_path / "lake").exists()  # looked at, not made
    lake = lake_of(applied_settings.model_copy(update={"archive": place}), no_threads)
    await lake.write("turns", 0, 0, 1, [Entry(0, 1, turn_record.encode(make_record()))])
    _, checks = await doctor(applied_settings, TURNMILL_ARCHIVE=place)
    assert checks["archive"]["seen"] == (
        f"{place}: turns: 1 row in 1 file, 1 snapshot; usage: 1 row in 1 file, 1 snapshot"
    )


async def no_threads(threads: Any) -> set[Any]:
    return set()
