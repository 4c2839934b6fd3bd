"""The archive as Apache Iceberg tables, in a folder and in a bucket of a real S3 server (moto)."""

import asyncio
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.__main__ import cli
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.archive import lake_catalog, lake_files, lake_table, lake_upkeep
from pipeline.stores.archive.lake import COLUMNS, Lake
from pipeline.stores.archive.turn_archive import Entry, lake_of
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.threads.reading import all_documents, erased_among
from pipeline.stores.turns import write_turns
from pipeline.worker.sinks.role import archive_work
from tests.support.lake import by_duckdb, digests, expected, files_with, table, turns, usage_rows
from tests.support.s3 import new_bucket, use_s3
from tests.support.turn_records import make_record
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.extras import install
from turnmill.identity import thread_uuid

TOPIC = "turnmill.turns"
START = 1_768_928_342_000


async def nobody(threads: Any) -> set[ThreadKey]:
    return set()


def entries(records: Sequence[Any], begin: int = 0) -> list[Entry]:
    return [Entry(n, START + n, turn_record.encode(one)) for n, one in enumerate(records, begin)]


async def write(lake: Lake, records: Sequence[Any], begin: int = 0, partition: int = 3) -> Any:
    return await lake.write(TOPIC, partition, begin, begin + len(records), entries(records, begin))


@pytest.fixture(params=["file", "s3"])
def both(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with an empty lake in a folder, and in a bucket."""
    if request.param == "file":
        return load({}, home=tmp_path, archive=f"iceberg+{(tmp_path / 'an archive').as_uri()}")
    endpoint = request.getfixturevalue("s3")
    use_s3(monkeypatch, endpoint)
    return load({}, home=tmp_path, archive=f"iceberg+s3://{new_bucket(endpoint)}/some%20prefix")


@pytest.fixture
def here(tmp_path: Path) -> Settings:
    """Settings with an empty lake in a folder."""
    return load({}, home=tmp_path, archive=f"iceberg+{(tmp_path / 'lake').as_uri()}", archive_bytes=6_000)


def some_records() -> list[Any]:
    """Turns of some threads and two tenants, on two days, most in two revisions."""
    found = []
    for n in range(24):
        chat, run, tenant = f"chat{n % 4}", f"r{n}", "acme" if n % 3 else None
        user = make_record(chat, run, "user", role="user", seconds=n * 100, text=f"{n} weather?", tenant=tenant)
        cut = make_record(chat, run, seconds=n * 100 + 1, status="interrupted", tokens=n, tenant=tenant)
        whole = make_record(chat, run, seconds=n * 100 + 1, tokens=n, text=f"ödd {n}", revision=1, tenant=tenant)
        found += [cut, user, whole]
    return found


async def test_each_turn_once_in_both_tables_as_pyiceberg_and_duckdb_read_them(both: Settings) -> None:
    records = some_records()
    lake = lake_of(both, nobody)
    for begin in range(0, len(records), 10):
        await write(lake, records[begin : begin + 10], begin)
    rows, usage = expected(records)
    assert digests(both) == rows
    assert usage_rows(both) == usage
    snapshot = table(both, "turns").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties["turnmill.offsets"] == (
        f'{{"{TOPIC}/3":[0,{len(records)},{START + len(records) - 1}]}}'
    )
    if str(both.archive).startswith("iceberg+file:"):
        (found,) = by_duckdb(both, "turns", "SELECT count(*), count(DISTINCT (thread_id, tenant, turn_id)) FROM rows")
        assert found == (len(rows), len(rows))
        (sums,) = by_duckdb(both, "usage", "SELECT sum(total_tokens), count(*) FROM rows")
        assert sums == (sum(tokens for *_, tokens in usage), len(usage))
    days = {str(task.file.partition) for task in table(both, "turns").scan().plan_files()}
    assert len(days) == 1


async def test_turns_of_several_days_and_of_none_have_partitions_of_their_own(here: Settings) -> None:
    lake = lake_of(here, nobody)
    later = make_record("b")
    later["turn"]["started_at"] = "2026-02-03T10:00:00Z"
    timeless = make_record("c")
    timeless["turn"] |= {"started_at": None, "completed_at": None, "messages": []}
    await write(lake, [make_record("a"), later, timeless])
    plan = [str(task.file.file_path).split("/")[-2] for task in table(here, "turns").scan().plan_files()]
    assert sorted(plan) == ["day=1970-01-01", "day=2026-01-20", "day=2026-02-03"]
    scan = table(here, "turns").scan(row_filter="started_at >= '2026-02-01T00:00:00+00:00'")
    assert len(list(scan.plan_files())) == 1


async def test_a_segment_that_is_held_is_not_written_again_and_one_of_a_new_topic_is(here: Settings) -> None:
    lake = lake_of(here, nobody)
    assert (await write(lake, [make_record(run="a"), make_record(run="b")])).rows == 2
    before = table(here, "turns").metadata.current_snapshot_id
    assert (await write(lake, [make_record(run="a"), make_record(run="b")])).rows == 0
    assert table(here, "turns").metadata.current_snapshot_id == before
    anew = [Entry(0, START + 9_000_000, turn_record.encode(make_record(run="c")))]
    assert (await lake.write(TOPIC, 3, 0, 1, anew)).rows == 1
    assert len(digests(here)) == 3


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["turns", "usage"])
async def test_a_crash_around_a_commit_changes_nothing(
    here: Settings, monkeypatch: pytest.MonkeyPatch, when: str, name: str
) -> None:
    records = some_records()
    lake = lake_of(here, nobody)
    await write(lake, records[:30])
    swap, left = lake_table.swap, [name]

    def crash(found: Any, *args: Any) -> int | None:
        if left and found.name()[-1] == left[0]:
            left.pop()
            if when == "after":
                swap(found, *args)
            raise OSError("the power is gone")
        return swap(found, *args)

    monkeypatch.setattr(lake_table, "swap", crash)
    with pytest.raises(StoreError, match="the power is gone") as caught:
        await write(lake, records[30:], 30)
    assert caught.value.transient
    await write(lake_of(here, nobody), records[20:], 20)
    assert (digests(here), usage_rows(here)) == expected(records)


async def test_workers_that_commit_at_the_same_time_lose_and_double_nothing(
    here: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a lake of its own; two have the same partition, as where one has lost it without knowing."""
    monkeypatch.setattr(lake_catalog, "MAX_RETRY_DELAY", 0.05)
    records = some_records()

    async def worker(number: int, partition: int) -> None:
        lake = lake_of(here, nobody)
        for begin in range(0, len(records), 12 + number * 6):
            await until_written(lake, records[begin : begin + 12 + number * 6], begin, partition)

    async def until_written(*args: Any) -> None:
        """As the role does it: the catalog may be locked."""
        while True:
            try:
                await write(*args)
            except StoreError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    await asyncio.gather(worker(0, 3), worker(1, 3), worker(2, 4))
    assert (digests(here), usage_rows(here)) == expected(records)


async def test_erased_threads_leave_no_row_no_file_and_no_snapshot(here: Settings, tmp_path: Path) -> None:
    records = some_records()
    gone = ThreadKey(thread_uuid("chat1")[0], "acme")
    async with await ThreadStore.open(here.store_url) as store:
        await write_turns(store, [turn_record.decode(turn_record.encode(one)) for one in records])
        lake = lake_of(here, partial(erased_among, store))
        for begin in range(0, len(records), 20):
            await write(lake, records[begin : begin + 20], begin)
        assert files_with(tmp_path / "lake", gone.thread_id)
        found = await erase(here, store, gone, "a test")
        assert found.stored
        assert found.segments
        rest = [one for one in records if (one["thread_id"], one["tenant"]) != (gone.thread_id, "acme")]
        assert (digests(here), usage_rows(here)) == expected(rest)
        others = {one["run_id"] for one in rest if one["thread_id"] == gone.thread_id}
        assert others  # of the tenant None
        erased = {one["run_id"] for one in records} - {one["run_id"] for one in rest}
        for run in erased:
            assert not files_with(tmp_path / "lake", f'"run_id":"{run}"')
        assert len(table(here, "turns").snapshots()) == 1
        await write(lake, records, 0, 7)  # a replay, on another partition
        assert (digests(here), usage_rows(here)) == expected(rest)
        assert (await erase(here, store, gone, "a test")).segments == 0


async def test_a_thread_that_is_erased_while_it_is_written_does_not_stay(here: Settings) -> None:
    gone: set[ThreadKey] = set()

    async def erased(threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        found = gone & set(threads)
        gone.add(ThreadKey(thread_uuid("chat1")[0], "acme"))
        return found

    records = some_records()
    await write(lake_of(here, erased), records)
    rest = [one for one in records if (one["thread_id"], one["tenant"]) != (thread_uuid("chat1")[0], "acme")]
    assert (digests(here), usage_rows(here)) == expected(rest)


async def test_rows_of_a_worker_that_died_before_it_saw_an_erasure_go(here: Settings, tmp_path: Path) -> None:
    """It has committed them; the erasure found nothing before, and the segment comes again, whole or in other cuts."""
    records = some_records()
    gone = ThreadKey(thread_uuid("chat1")[0], "acme")
    asked: list[Any] = []

    async def dies(threads: Any) -> set[ThreadKey]:
        if asked:
            raise StoreError("killed", transient=True)
        asked.append(threads)
        return set()

    async def erased(threads: Any) -> set[ThreadKey]:
        return {gone} & set(threads)

    with pytest.raises(StoreError, match="killed"):
        await write(lake_of(here, dies), records[:40])
    await lake_of(here, erased).delete_threads([])
    assert files_with(tmp_path / "lake", gone.thread_id)
    await write(lake_of(here, erased), records[:40])
    await write(lake_of(here, erased), records[:60])
    await write(lake_of(here, erased), records[60:], 60)
    rest = [one for one in records if (one["thread_id"], one["tenant"]) != (gone.thread_id, "acme")]
    assert (digests(here), usage_rows(here)) == expected(rest)
    for run in {one["run_id"] for one in records} - {one["run_id"] for one in rest}:
        assert not files_with(tmp_path / "lake", f'"run_id":"{run}"')


@pytest.mark.parametrize("cut", [3, 12])
async def test_an_erasure_that_is_killed_goes_on(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Killed while it deletes files, before or behind the commit that forgets the snapshots."""
    records = some_records()
    lake = lake_of(here, nobody)
    for begin in range(0, len(records), 20):
        await write(lake, records[begin : begin + 20], begin)
    unlink, left = lake_files.LakeFiles.delete, [cut]

    def delete(files: Any, location: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError("the power is gone")
        unlink(files, location)

    monkeypatch.setattr(lake_files.LakeFiles, "delete", delete)
    gone = ThreadKey(thread_uuid("chat1")[0], "acme")
    with pytest.raises(StoreError, match="the power is gone"):
        await lake.delete_threads([gone])
    await lake_of(here, nobody).delete_threads([gone])
    rest = [one for one in records if (one["thread_id"], one["tenant"]) != (gone.thread_id, "acme")]
    assert (digests(here), usage_rows(here)) == expected(rest)
    for run in {one["run_id"] for one in records} - {one["run_id"] for one in rest}:
        assert not files_with(tmp_path / "lake", f'"run_id":"{run}"')


async def test_usage_of_a_record_that_ranks_lower_does_not_come_back(here: Settings) -> None:
    """The best record has no usage, so that the table of usage has nothing to compare with."""
    best = make_record(run="r", role="user", revision=1, events=9)
    older = make_record(run="r")
    await write(lake_of(here, nobody), [best])
    await write(lake_of(here, nobody), [older], 1)
    assert (digests(here), usage_rows(here)) == expected([best, older])
    assert usage_rows(here) == []


async def test_neither_files_nor_snapshots_become_many(here: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MIN_JOINED_FILES", 4), ("MAX_SNAPSHOTS", 3), ("RECENT", -1.0)):
        monkeypatch.setattr(lake_upkeep, name, value)
    records = some_records()
    lake = lake_of(here, nobody)
    for begin in range(0, len(records), 3):
        await write(lake, records[begin : begin + 3], begin)
        for name in COLUMNS:
            assert len(list(table(here, name).scan().plan_files())) <= 8
            assert len(table(here, name).snapshots()) <= 8
            folder = Path(str(here.archive).removeprefix("iceberg+file://")) / name
            assert len(list(folder.rglob("*"))) < 80
    assert (digests(here), usage_rows(here)) == expected(records)


async def test_many_files_are_cleared_of_a_thread_by_some_commits(
    here: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_table, "COMMIT_BYTES", 1)
    records = some_records()
    lake = lake_of(here, nobody)
    for begin in range(0, len(records), 24):
        await write(lake, records[begin : begin + 24], begin)
    gone = {ThreadKey(thread_uuid(f"chat{n}")[0], "acme") for n in range(3)}
    assert await lake.delete_threads(gone) >= 4
    rest = [one for one in records if ThreadKey(one["thread_id"], one["tenant"]) not in gone]
    assert (digests(here), usage_rows(here)) == expected(rest)


async def test_a_named_snapshot_stands_in_the_way_of_an_erasure(here: Settings) -> None:
    lake = lake_of(here, nobody)
    await write(lake, [make_record("a")])
    opened = table(here, "turns")
    opened.manage_snapshots().create_tag(opened.snapshots()[0].snapshot_id, "quarter").commit()
    with pytest.raises(StoreError, match="quarter"):
        await lake.delete_threads([ThreadKey(thread_uuid("a")[0])])
    table(here, "turns").manage_snapshots().remove_tag("quarter").commit()
    await lake.delete_threads([ThreadKey(thread_uuid("a")[0])])
    assert digests(here) == []


async def test_files_are_compacted_and_snapshots_expire_by_a_command(
    both: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = some_records()
    lake = lake_of(both, nobody)
    for begin in range(0, len(records), 9):
        await write(lake, records[begin : begin + 9], begin)
    monkeypatch.setattr("pipeline.cli.stored.store.load", lambda: both)
    runner = CliRunner()
    result = await asyncio.to_thread(runner.invoke, cli, ["archive", "compact"])
    assert result.exit_code == 0, result.output
    assert "1 now" in result.output
    assert (digests(both), usage_rows(both)) == expected(records)
    assert len(table(both, "turns").snapshots()) > 5
    result = await asyncio.to_thread(runner.invoke, cli, ["archive", "expire", "--older-than", "0"])
    assert result.exit_code == 0, result.output
    assert "removed" in result.output
    assert len(table(both, "turns").snapshots()) == 1
    assert (digests(both), usage_rows(both)) == expected(records)
    await write(lake, records[:9])  # held still: the offsets went along
    assert len(table(both, "turns").snapshots()) == 1


async def test_what_a_crash_has_left_goes_when_it_is_old(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(here, nobody)
    await write(lake, [make_record("a")])
    folder = tmp_path / "lake" / "turns" / "data" / "day=2026-01-20"
    left, foreign = folder / f"{'0a' * 16}.parquet", folder / "00000-of-another-engine.parquet"
    left.write_bytes(b"x")
    foreign.write_bytes(b"x")
    await lake.expire_snapshots(0)
    assert left.exists()  # a worker may be about to commit it
    monkeypatch.setattr(lake_upkeep, "RECENT", -1.0)
    await lake.expire_snapshots(0)
    assert not left.exists()
    assert foreign.exists()  # that may take longer
    monkeypatch.setattr(lake_upkeep, "FOREIGN", -1.0)
    await lake.expire_snapshots(0)
    assert not foreign.exists()
    assert len(digests(here)) == 1


async def test_a_turn_whose_beginning_moves_by_days_is_made_one_by_compaction(here: Settings) -> None:
    lake = lake_of(here, nobody)
    first, moved = make_record(run="r"), make_record(run="r", revision=1)
    moved["turn"]["started_at"] = "2026-02-03T10:00:00Z"
    await write(lake, [first])
    await write(lake, [moved], 1)
    assert len(digests(here)) == 2
    assert (await lake.compact())["turns"].doubles == 1
    assert (digests(here), usage_rows(here)) == expected([first, moved])


async def test_a_later_column_is_added_and_one_of_a_newer_version_stays(
    here: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = COLUMNS["turns"]
    older = pa.schema([one for one in now if one.name != "provider"])
    records = some_records()

    def write_as(columns: pa.Schema) -> None:
        monkeypatch.setitem(COLUMNS, "turns", columns)

    write_as(older)
    await write(lake_of(here, nobody), records[:20])
    assert "provider" not in table(here, "turns").schema().column_names
    write_as(now.append(pa.field("mood", pa.string())))  # a newer one
    await write(lake_of(here, nobody), records[20:40], 20)
    write_as(now)  # the older one again, beside it
    await write(lake_of(here, nobody), records[40:], 40)
    assert (digests(here), usage_rows(here)) == expected(records)
    rows = table(here, "turns").scan().to_arrow()
    assert rows["mood"].null_count == len(rows)
    assert 0 < rows["provider"].null_count < len(rows)
    (found,) = by_duckdb(here, "turns", "SELECT count(provider) FROM rows")
    assert found == (len(rows) - rows["provider"].null_count,)


async def test_the_role_writes_what_the_store_has(here: Settings) -> None:
    records = [turn_record.decode(turn_record.encode(one)) for one in some_records()]
    kafka = [
        SimpleNamespace(offset=n, timestamp=START + n * 1000, value=turn_record.encode(one))
        for n, one in enumerate(records)
    ]
    kafka.append(SimpleNamespace(offset=len(records), timestamp=START, value=b"no turn record"))
    async with await ThreadStore.open(here.store_url) as store:
        await write_turns(store, records)
        for seed in range(2):
            work = archive_work(here, Metrics(), None)
            await work.assign({3: 0})
            rest = list(kafka)
            while rest:
                size = random.Random(seed).randrange(1, 30)
                await work.handle(3, rest[:size])
                rest = rest[size:]
            await work.tick(3, 700_000)
            assert work.floor(3) == len(kafka)
        found = {key: document["turns"] async for key, document in all_documents(store)}
        assert turns(here) == {(key.thread_id, key.tenant or ""): some for key, some in found.items()}


@dataclass
class World:
    """Lakes of two workers over one set of tables, and what they were given."""

    settings: Settings
    log: list[Any] = field(default_factory=list)
    erased: set[ThreadKey] = field(default_factory=set)

    async def marked(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        return self.erased & set(threads)


REVISIONS = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(REVISIONS, min_size=1, max_size=8)),
        st.tuples(st.just("replay"), st.tuples(st.integers(0, 30), st.integers(1, 30))),
        st.tuples(st.just("crash"), st.booleans()),
        st.tuples(st.just("erase"), st.integers(0, 2)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("expire"), st.none()),
    ),
    min_size=2,
    max_size=7,
)


@hypothesis_settings(max_examples=12)
@given(STEPS)
def test_the_tables_hold_the_newest_revision_of_each_turn_once(steps: Any) -> None:
    """Whatever is published, replayed in other cuts, erased, compacted and expired, and whatever crashes."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        asyncio.run(play(Path(folder), steps, patch))


async def play(folder: Path, steps: Any, patch: pytest.MonkeyPatch) -> None:
    world = World(load({}, home=folder, archive=f"iceberg+{folder.as_uri()}/lake"))
    lake = lake_of(world.settings, world.marked)
    swap, crash = lake_table.swap, list[bool]()

    def swapped(*args: Any) -> int | None:
        after = crash.pop() if crash else None
        done = swap(*args) if after is not False else None
        if after is not None:
            raise OSError("killed")
        return done

    patch.setattr(lake_table, "swap", swapped)

    async def written(begin: int, end: int) -> None:
        nonlocal lake
        while begin < end:
            try:
                await lake.write(TOPIC, 0, begin, end, entries(world.log, 0)[begin:end])
            except StoreError:
                lake = lake_of(world.settings, world.marked)
                continue
            break

    for what, how in steps:
        if what == "publish":
            begin = len(world.log)
            for chat, run, revision, complete, tokens in how:
                world.log.append(
                    make_record(
                        f"c{chat}",
                        f"r{run}",
                        seconds=run,
                        tokens=tokens,
                        revision=revision,
                        events=revision + 1,
                        role="agent" if tokens else "user",  # which has no rows of usage
                    )
                    | {"status": "complete" if complete else "interrupted"}
                )
            await written(begin, len(world.log))
        elif what == "replay" and world.log:
            begin = min(how[0], len(world.log) - 1)
            await written(begin, min(begin + how[1], len(world.log)))
        elif what == "crash":
            crash.append(how)
        elif what == "erase":
            key = ThreadKey(thread_uuid(f"c{how}")[0])
            world.erased.add(key)
            crash.clear()
            await lake.delete_threads([key])
        elif what in ("compact", "expire"):
            crash.clear()
            await (lake.compact() if what == "compact" else lake.expire_snapshots(0))
    crash.clear()
    await written(0, len(world.log))
    rest = [one for one in world.log if ThreadKey(one["thread_id"]) not in world.erased]
    if world.log or world.erased:
        await lake.delete_threads([])
        assert (digests(world.settings), usage_rows(world.settings)) == expected(rest)


async def test_a_second_catalog_over_the_same_files_is_refused(here: Settings, tmp_path: Path) -> None:
    await write(lake_of(here, nobody), [make_record("a")])
    other = here.model_copy(update={"archive_catalog": f"sqlite:///{tmp_path / 'other.db'}"})
    with pytest.raises(StoreError, match="TURNMILL_ARCHIVE_CATALOG"):
        await write(lake_of(other, nobody), [make_record("b")])
    assert len(digests(here)) == 1


async def test_expired_rows_go_from_both_tables_and_a_tenant_is_found(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = some_records()
    lake = lake_of(here, nobody)
    await write(lake, records)
    assert await lake.holding("acme") == await lake.holding("") == 2
    assert await lake.holding("nobody") == 0
    assert await lake.threads_of("acme") == {ThreadKey(thread_uuid(f"chat{n}")[0], "acme") for n in range(4)}
    key = ThreadKey(thread_uuid("chat1")[0], "acme")
    day = datetime.fromtimestamp(START / 1000, UTC).date()
    assert await lake.counted([day], {key: 1}) == 0
    later = {key: 2_000_000_000_000}
    monkeypatch.setattr(lake_upkeep, "RECENT", -1.0)
    gone = [one for one in records if (one["thread_id"], one["tenant"]) == (key.thread_id, key.tenant)]
    count = len(expected(gone)[0])
    assert await lake.counted([day], later) == count
    removed = await lake.expire([day], later)
    assert (removed.rows, removed.threads) == (count, {key})
    assert (await lake.expire([day], later)).rows == 0
    assert (digests(here), usage_rows(here)) == expected([one for one in records if one not in gone])
    for run in {one["run_id"] for one in gone}:
        assert not files_with(tmp_path / "lake", f'"run_id":"{run}"')


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CallerError, match="TURNMILL_ARCHIVE is no table"):
        lake_of(load({}, home=tmp_path), nobody)
    for value in ("iceberg+azure://c/p", "iceberg+archive", "iceberg+"):
        with pytest.raises(CallerError, match="TURNMILL_ARCHIVE"):
            load({"TURNMILL_ARCHIVE": value})
    with pytest.raises(CallerError, match="TURNMILL_ARCHIVE_CATALOG"):
        load({"TURNMILL_ARCHIVE_CATALOG": "catalog"})
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(CallerError, match=f"^TURNMILL_ARCHIVE needs .*{re.escape(install('archive'))}"):
        lake_of(load({}, home=tmp_path, archive="iceberg+file:///x"), nobody)
