"""The archive in a folder and in a bucket of a real S3 server (moto), read with DuckDB as docs/archive.md does it."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipeline.stores.content.objects
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.archive.parquet import Archive
from pipeline.stores.archive.turn_archive import Entry
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.threads.reading import all_documents, erased_among, read_thread
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.worker.sinks.archive import ArchiveWork
from pipeline.worker.sinks.role import archive_work
from tests.support.archived import QUERIES, archive, turns_of
from tests.support.s3 import new_bucket, objects_of, use_s3
from topics import json_text, turn_record
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError, InvalidRecord
from turnmill.identity import thread_uuid

TOPIC = "turnmill.turns"
Objects = Callable[[], dict[str, bytes]]


@pytest.fixture(params=["file", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty archive."""
    if request.param == "file":
        return (tmp_path / "an archive").as_uri()
    endpoint = request.getfixturevalue("s3")
    use_s3(monkeypatch, endpoint)
    return f"s3://{new_bucket(endpoint)}/some%20prefix"


@pytest.fixture
def objects(root: str, tmp_path: Path, request: pytest.FixtureRequest) -> Objects:
    """Name -> content of all objects; they are then also below `tmp_path / "an archive"`, for DuckDB."""

    def read() -> dict[str, bytes]:
        folder = tmp_path / "an archive"
        if root.startswith("s3:"):
            for old in folder.rglob("*.parquet"):
                old.unlink()
            for key, data in objects_of(request.getfixturevalue("s3"), root.split("/")[2]).items():
                path = folder / key.removeprefix("some prefix/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}

    return read


@pytest.fixture
def local_settings(root: str, tmp_path: Path) -> Settings:
    return load({}, home=tmp_path, archive=root, archive_bytes=6_000, archive_age=60.0)


def kafka(number: int, record: Any, at: int | None = None) -> Any:
    value = turn_record.encode(record) if isinstance(record, dict) else record
    return SimpleNamespace(
        offset=number, timestamp=1_768_928_342_000 + number * 1000 if at is None else at, value=value
    )


def on(day: str, record: Any) -> Any:
    return json_text.loads(json_text.dumps(record).replace("2026-01-20T", day))


def a_topic(record: Any) -> list[Any]:
    """One partition: turns of some threads on two days, revisions, repetitions, and what is no turn record."""
    found: list[Any] = []
    for n in range(60):
        chat, run = f"chat{n % 5}", f"r{n}"
        user = record(chat, run, "user", role="user", seconds=n * 100, text=f"{n} \0 weather?", agents=[])
        cut = record(chat, run, seconds=n * 100 + 1, status="interrupted", tokens=n, text="cut")
        cut["turn"]["interruption"] = {"reason": "timeout"}
        whole = record(chat, run, seconds=n * 100 + 1, tokens=n, text=f"ödd \ud800 {n}", revision=1)
        found += [on("2026-01-21T", one) if n >= 30 else one for one in (user, cut, whole)]
        found += [found[n]] if n % 7 == 0 else []
    found[40:40] = [b"no turn record", None, b'{"v":1,"thread_id":"x"}', b"\xff"]
    found.append(record("chat0", "facts", turn=None, hash=None, at=1768903300000, thread={"title": "Weather"}))
    return [kafka(number, one) for number, one in enumerate(found)]


async def stored(store: ThreadStore, records: Sequence[Any]) -> None:
    turns = []
    for one in records:
        with contextlib.suppress(InvalidRecord):
            turns.append(turn_record.decode(one.value))
    await write_turns(store, turns)


async def same_as_the_store(store: ThreadStore, folder: Path) -> None:
    """Every thread's turns, each once; and the same sums."""
    with archive(folder) as connection:
        found = turns_of(connection)
        assert found == {document["thread_id"]: document["turns"] async for _, document in all_documents(store)}
        total = (await usage_report(store, UsageQuery())).total
        sums = "sum(requests), sum(total_tokens), sum(cost_nano_usd)"
        row = connection.execute(f"SELECT {sums}, count(*) FILTER (role = 'agent') FROM turns").fetchone()
        assert row == (total.requests, total.total_tokens, total.cost_nano_usd, total.turns)
        for query in QUERIES[1:]:
            assert connection.execute(query).fetchall()


async def run_through(work: ArchiveWork, records: Sequence[Any], start: int, batches: random.Random) -> None:
    """From an offset to the end, in any batches; the last segment closes by its age."""
    await work.assign({3: start})
    rest = list(records[start:])
    while rest:
        size = batches.randrange(1, 20)
        await work.handle(3, rest[:size])
        rest = rest[size:]
    await work.tick(3, 61_000)
    assert work.floor(3) == len(records)


async def test_what_no_column_takes_is_left_out_alone(
    local_settings: Settings, record: Any, objects: Objects, tmp_path: Path
) -> None:
    """Sums end at the largest number, as in the store; a record of a wrong type does not stop its segment."""
    most = record("most", tokens=2**53 - 1)
    most["turn"]["messages"] *= 1100
    odd = [record("text", status={"a": 1}), record("number") | {"ordinal": 2**63}, record("day", hash=5)]
    metrics = Metrics()
    work = archive_work(local_settings, metrics, None)
    await work.assign({3: 0})
    await work.handle(3, [kafka(n, one) for n, one in enumerate([record("good"), *odd, most])])
    await work.tick(3, 61_000)
    assert work.floor(3) == 5
    assert metrics.registry.get_sample_value(m.ARCHIVE_REFUSED.name) == 3
    assert objects()
    with archive(tmp_path / "an archive") as connection:
        rows = connection.execute("SELECT total_tokens FROM turns ORDER BY total_tokens").fetchall()
    assert rows == [(11,), (2**63 - 1,)]


async def test_each_turn_once_and_equal_to_the_store_after_crashes_and_replays(
    local_settings: Settings, record: Any, objects: Objects, tmp_path: Path
) -> None:
    records = a_topic(record)
    async with await ThreadStore.open(local_settings.store_url) as store:
        await stored(store, records)
        work = archive_work(local_settings, Metrics(), None)
        await run_through(work, records, 0, random.Random(0))
        first = objects()
        assert len(first) > 5
        assert {name.split("/")[0] for name in first} == {"day=2026-01-20", "day=2026-01-21"}
        await same_as_the_store(store, tmp_path / "an archive")
        assert work.metrics.registry.get_sample_value(m.ARCHIVE_REFUSED.name) == 4
        for seed in range(3):  # replays from the beginning, other batches: the same objects
            await run_through(archive_work(local_settings, Metrics(), None), records, 0, random.Random(seed))
            assert objects() == first
        # Segments of another size, from the middle: they overlap.
        other = local_settings.model_copy(update={"archive_bytes": 9_000})
        await run_through(archive_work(other, Metrics(), None), records, 17, random.Random(9))
        assert len(objects()) > len(first)
        await same_as_the_store(store, tmp_path / "an archive")


async def test_a_segment_ends_by_the_brokers_time_whether_or_not_a_record_comes(
    local_settings: Settings, record: Any, objects: Objects
) -> None:
    """Idle at 60 s after the first record, or a record from then: the same end."""
    start = 1_768_928_342_000
    records = [kafka(n, record(run=f"r{n}"), at) for n, at in enumerate([start, start + 40_000, start + 60_000])]
    for idle in (True, False):
        work = archive_work(local_settings, Metrics(), None)
        await work.assign({3: 0})
        await work.handle(3, records[:2])
        await work.tick(3, 19_999)
        assert work.floor(3) == 0
        if idle:
            await work.tick(3, 1)
        else:
            await work.handle(3, records[2:])
        assert work.floor(3) == 2
        (name,) = objects()
        assert name.endswith(f"{TOPIC}-00003-{0:020d}-{2:020d}.parquet")


async def test_an_erased_thread_leaves_the_archive_and_stays_out(
    local_settings: Settings, record: Any, objects: Objects, tmp_path: Path
) -> None:
    records = a_topic(record)
    gone, kept = thread_uuid("chat1")[0], thread_uuid("chat2")[0]
    async with await ThreadStore.open(local_settings.store_url) as store:
        await stored(store, records)
        work = archive_work(local_settings, Metrics(), None)
        await run_through(work, records, 0, random.Random(0))
        lone = [kafka(n, record("chat1", f"lone{n}")) for n in range(3)]  # segments of nothing else
        await Archive.of(local_settings, partial(erased_among, store)).write(
            TOPIC, 4, 0, 3, [Entry(one.offset, one.timestamp, one.value) for one in lone]
        )
        before = objects()
        holding = await erase(local_settings, store, ThreadKey(gone), "a test")
        assert holding.stored
        assert holding.segments > 3
        assert set(before) - set(objects()) >= {name for name in before if f"{TOPIC}-00004-" in name}
        assert await read_thread(store, ThreadKey(gone)) is None
        await same_as_the_store(store, tmp_path / "an archive")
        again = await erase(local_settings, store, ThreadKey(gone), "a test")
        assert (again.stored, again.segments) == (False, 0)
        after = objects()
        await stored(store, records)  # a replay of everything
        await run_through(archive_work(local_settings, Metrics(), None), records, 0, random.Random(1))
        assert objects() == after
        assert await read_thread(store, ThreadKey(gone)) is None
        assert await read_thread(store, ThreadKey(kept)) is not None
        await same_as_the_store(store, tmp_path / "an archive")


async def test_what_a_tenant_claims_of_far_days_costs_other_tenants_nothing(
    local_settings: Settings, record: Any, objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Turns of 40 days in one segment, and one of another tenant on each of two of these days, which came late."""
    recorded = 1_768_928_342_000
    far = [f"2001-{1 + n // 20:02d}-{1 + n % 20:02d}T" for n in range(40)]
    turns = [on(day, record("evil", f"e{n}", tenant="evil")) for n, day in enumerate(far)]
    turns += [on(far[n], record("late", f"l{n}", tenant="acme")) for n in (0, 1)] + [record("chat", "r", tenant="acme")]
    entries = [Entry(n, recorded, turn_record.encode(one)) for n, one in enumerate(turns)]
    ours = {name: ThreadKey(thread_uuid(name)[0], "acme") for name in ("late", "chat")}
    async with await ThreadStore.open(local_settings.store_url) as store:
        await write_turns(store, turns)
        held = Archive.of(local_settings, partial(erased_among, store))
        assert (await held.write(TOPIC, 0, 0, len(entries), entries)).rows == len(entries)
        before = objects()
        await held.write(TOPIC, 0, 0, len(entries), entries)
        assert objects() == before
        assert len(before) == len(far) + 3
        assert await held.holding("acme") == 3
        assert await held.threads_of("acme") == {*ours.values()}
        read: list[str] = []
        reading = pipeline.stores.content.objects.Objects.reading

        def counted(self: Any, uri: str) -> Any:
            read.append(uri)
            return reading(self, uri)

        monkeypatch.setattr(pipeline.stores.content.objects.Objects, "reading", counted)
        for name, holding in (("chat", 1), ("late", 2)):
            read.clear()
            assert (await erase(local_settings, store, ours[name], "a test")).segments == holding
            assert len(read) <= 3
        assert len(objects()) == len(far)
        with archive(tmp_path / "an archive") as connection:
            assert turns_of(connection) == {one["thread_id"]: one["turns"] async for _, one in all_documents(store)}
        evil = ThreadKey(thread_uuid("evil")[0], "evil")
        assert (await erase(local_settings, store, evil, "a test")).segments == len(far)
        assert objects() == {}


async def test_a_thread_that_is_erased_while_its_segment_is_written_does_not_stay(
    local_settings: Settings, record: Any, objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The mark and the look at the archive fall between our own look at the marks and our write; and two at once."""
    entries = [Entry(n, 0, turn_record.encode(record(f"chat{n}", f"r{n}"))) for n in range(3)]
    ids = [thread_uuid(f"chat{n}")[0] for n in range(3)]
    async with await ThreadStore.open(local_settings.store_url) as store:
        holder = Archive.of(local_settings, partial(erased_among, store))
        write = holder.objects.write

        async def erased_meanwhile(*args: Any, **options: Any) -> None:
            monkeypatch.setattr(holder.objects, "write", write)
            await erase(local_settings, store, ThreadKey(ids[0]), "a test")
            await write(*args, **options)

        monkeypatch.setattr(holder.objects, "write", erased_meanwhile)
        written = await holder.write(TOPIC, 0, 0, 3, entries)
        assert written.rows == 2
        assert len(objects()) == 1
        with archive(tmp_path / "an archive") as connection:
            assert set(turns_of(connection)) == set(ids[1:])
        await asyncio.gather(*(erase(local_settings, store, ThreadKey(id_), "a test") for id_ in ids[1:]))
        assert objects() == {}


async def test_a_bucket_that_is_away_holds_up_the_role_and_nothing_is_skipped(
    tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.worker.host.work.FIRST_DELAY", 0.01)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file is in the way")
    settings = load({}, home=tmp_path, archive=blocked.as_uri(), archive_bytes=1)
    work = archive_work(settings, Metrics(), None)
    await work.assign({0: 0})
    handling = asyncio.ensure_future(work.handle(0, [kafka(0, record())]))
    while work.trouble is None:
        await asyncio.sleep(0.01)
    assert work.floor(0) == 0
    blocked.unlink()
    await handling
    assert (work.floor(0), work.trouble) == (1, None)
    blocked.rename(tmp_path / "elsewhere")
    blocked.write_text("again")
    handling = asyncio.ensure_future(work.handle(0, [kafka(1, record(run="r1"))]))
    while work.trouble is None:
        await asyncio.sleep(0.01)
    await work.interrupt()  # the partition is about to go
    await handling
    assert work.floor(0) == 1
    work.drop()
    assert work.floor(0) is None


async def test_what_is_in_the_way_is_named(tmp_path: Path, record: Any) -> None:
    with pytest.raises(CallerError, match="TURNMILL_ARCHIVE"):
        archive_work(load({}, home=tmp_path), Metrics(), None)
    settings = load({}, home=tmp_path, archive=tmp_path.as_uri() + "/archive")
    async with await ThreadStore.open(settings.store_url) as store:
        await write_turns(store, [record()])
        (tmp_path / "archive").mkdir()
        (tmp_path / "archive" / "holiday.parquet").write_text("no parquet")
        with pytest.raises(StoreError, match=r"holiday\.parquet can't be read"):
            await erase(settings, store, ThreadKey(thread_uuid("chat")[0]), "a test")
        (tmp_path / "archive" / "holiday.parquet").unlink()
        assert (await erase(settings, store, ThreadKey(thread_uuid("chat")[0]), "a test")).stored


@pytest.mark.parametrize("value", ["archive", "inline", "http://host/x", "file://host/x", "s3://", "s3://b/p?x=1"])
def test_an_address_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_ARCHIVE"):
        load({"TURNMILL_ARCHIVE": value})
