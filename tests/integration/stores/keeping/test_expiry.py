"""What is older than its retention goes, with all that belongs to it; what is younger, or held, stays."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from pipeline.__main__ import cli
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.policies.retention import DAY_MS, Retention
from pipeline.settings import LAKE, Settings, load
from pipeline.stores.archive import lake_upkeep
from pipeline.stores.archive.turn_archive import Entry, archive_of
from pipeline.stores.content.store import ContentStore, folder
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.schema import expired as expired_table
from pipeline.stores.database.schema import threads, usage_state
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, erase
from pipeline.stores.keeping.expiry import RECHECK_MS, Expired, Expiry, RoundPosition, expire, lease_expiry, next_ripe
from pipeline.stores.keeping.holding import held_threads, hold_thread, release_thread
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.reading import erased_among, read_thread
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.turns import compare_turns, write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.summing import compare_sums, sum_up
from pipeline.turns.times import epoch_ms
from pipeline.worker.sinks.role import expiring_of
from tests.support.packs import written_at
from tests.support.stored_threads import thread_keys
from tests.support.waiting import until
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

BEGIN: Final = epoch_ms("2026-01-20T10:00:00Z") or 0  # of make_record's times
KEPT_FOR: Final = "30d,acme=10d,globex=forever"
AFTER_20_DAYS, AFTER_40_DAYS = (BEGIN + days * DAY_MS for days in (20, 40))


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey(thread_uuid(chat)[0], tenant)


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    places = {"content": (tmp_path / "content").as_uri(), "archive": (tmp_path / "archive").as_uri()}
    return load({}, home=tmp_path, store=store_url, store_retention=KEPT_FOR, **places)


@pytest.fixture(params=["objects", "tables"])
def archived_settings(request: pytest.FixtureRequest, local_settings: Settings, tmp_path: Path) -> Settings:
    """With an archive of either kind; tables beside one database are enough."""
    if request.param == "tables" and not local_settings.store_url.startswith("sqlite:"):
        pytest.skip("to tables, databases are alike")
    kind = LAKE if request.param == "tables" else ""
    return local_settings.model_copy(update={"archive": f"{kind}{(tmp_path / 'archive').as_uri()}"})


async def round_of(expiry: Expiry, now: int) -> Expired:
    gone, more = Expired(), True
    while more:
        some, more = await expiry.step(now)
        gone += some
    return gone


async def stored(store: ThreadStore) -> set[ThreadKey]:
    return {one async for one in thread_keys(store)}


async def expired_remnants(store: ThreadStore) -> int:
    async with store.reading() as connection:
        return len((await connection.execute(select(expired_table))).all())


async def tokens(store: ThreadStore, *groups: str) -> int:
    return (await usage_report(store, UsageQuery(groups))).total.input_tokens


async def summed(store: ThreadStore) -> None:
    while await sum_up(store):
        pass


async def test_a_thread_goes_as_a_whole_when_its_newest_turn_is_older_than_its_tenants_retention(
    store: ThreadStore, local_settings: Settings, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pipeline.audit")
    tenants = {"none": None, "a": "acme", "g": "globex", "other": "umbrella"}
    await write_turns(
        store, [record(chat, f"r{n}", tenant=tenant) for chat, tenant in tenants.items() for n in range(3)]
    )
    await summed(store)
    expiry = Expiry(local_settings, store)
    assert await expiry.would_go(AFTER_20_DAYS) == Expired(1, 3)
    assert await round_of(expiry, BEGIN + DAY_MS) == Expired()
    assert await round_of(expiry, AFTER_20_DAYS) == Expired(1, 3)
    assert await stored(store) == {key("none"), key("g", "globex"), key("other", "umbrella")}
    (line,) = [line.getMessage() for line in caplog.records if line.name == "pipeline.audit"]
    assert f"expired thread {key('a', 'acme').text}, 3 turns" in line
    newer = record("none", "new")
    newer["turn"] |= {"started_at": "2026-02-20T10:00:00Z", "completed_at": "2026-02-20T10:00:01Z"}
    await write_turns(store, [newer], local_settings.kept_for, AFTER_40_DAYS)
    assert await round_of(expiry, AFTER_40_DAYS) == Expired(1, 3)
    assert await stored(store) == {key("none"), key("g", "globex")}, "one whose newest turn is young stays as it is"
    assert len((await read_thread(store, key("none")) or {})["turns"]) == 4
    await summed(store)
    assert await tokens(store, "tenant") == 13 * 10, "sums keep what expired threads have used"
    assert await tokens(store, "thread") == 7 * 10
    await erase(local_settings, store, key("g", "globex"), "a test")
    await summed(store)
    assert await tokens(store, "tenant") == 10 * 10, "an erasure takes it away"
    assert (await compare_sums(store)).wrong == ()


async def test_a_replay_brings_nothing_back_and_counts_nothing_twice(
    store: ThreadStore, local_settings: Settings, record: Any, tables: Any
) -> None:
    kept_for = local_settings.kept_for
    old = [record("old", f"r{n}") for n in range(3)]
    await write_turns(store, old)
    await round_of(Expiry(local_settings, store), AFTER_40_DAYS)
    await round_of(Expiry(local_settings, store), AFTER_40_DAYS + RECHECK_MS)
    await summed(store)
    before = await tables()
    assert await expired_remnants(store) == 0
    young = record("young")
    young["turn"] |= {"started_at": "2026-02-20T10:00:00Z", "completed_at": "2026-02-20T10:00:01Z"}
    result = await write_turns(store, [*old, young], kept_for, AFTER_40_DAYS)
    assert (result.inserted, result.unchanged, result.expired) == (1, 3, (0, 1, 2))
    assert (await compare_turns(store, old, kept_for, AFTER_40_DAYS)).expired == (0, 1, 2)
    await delete_thread(store, key("young"))
    await summed(store)
    after = await tables()
    for name in ("usage_names",):
        del before[name], after[name]
    assert after == before
    assert await tokens(store, "tenant") == 30


async def test_a_newer_revision_of_a_stored_turn_is_taken_however_old_it_is(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(store, [record("g", tenant="acme")])
    newer = record("g", tenant="acme", revision=1, events=4)
    assert (await write_turns(store, [newer], local_settings.kept_for, AFTER_40_DAYS)).updated == 1


async def test_what_has_no_time_stays(store: ThreadStore, local_settings: Settings, record: Any) -> None:
    timeless = record("timeless")
    timeless["turn"] = {"turn_type": "user", "parts": []}
    assert (await write_turns(store, [timeless], local_settings.kept_for, AFTER_40_DAYS)).inserted == 1
    assert await round_of(Expiry(local_settings, store), AFTER_40_DAYS) == Expired()


async def test_held_threads_stay_until_they_are_released(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(store, [record("one"), record("two")])
    await hold_thread(store, key("one"))
    expiry = Expiry(local_settings, store)
    assert await expiry.would_go(AFTER_40_DAYS) == Expired(1, 1, held=1)
    assert await round_of(expiry, AFTER_40_DAYS) == Expired(1, 1)
    assert await stored(store) == {key("one")}
    await release_thread(store, key("one"))
    assert await round_of(expiry, AFTER_40_DAYS) == Expired(1, 1)


async def test_what_comes_or_is_held_in_the_middle_of_a_step_stays(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    """Between the look at a thread, and its end."""
    await write_turns(store, [record("one"), record("two"), record("three")])
    ripe, _ = await next_ripe(store, local_settings.kept_for, AFTER_40_DAYS, RoundPosition(tenant=1))
    assert len(ripe) == 3
    newer = record("one", "new")
    newer["turn"] |= {"completed_at": "2026-02-25T10:00:01Z"}
    await write_turns(store, [newer])
    await hold_thread(store, key("two"))
    gone = await expire(store, [one.key for one in ripe], local_settings.kept_for, AFTER_40_DAYS)
    assert [one.key for one in gone] == [key("three")]
    assert len((await read_thread(store, key("one")) or {})["turns"]) == 2


async def test_large_values_go_but_for_those_of_turns_that_may_be_on_their_way(
    store: ThreadStore, local_settings: Settings, record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = ContentStore.of(local_settings)
    for tenant in (None, "umbrella"):
        await write_turns(store, [record("old", tenant=tenant)])
        await contents.put(key("old", tenant), b"of the old turn", "text/plain")
    kept = await contents.put(key("g", "globex"), b"of another", "text/plain")
    written_at(tmp_path / "content", BEGIN)
    coming = await contents.put(key("old"), b"of a turn that is not stored yet", "text/plain")
    again = await contents.put(key("old", "umbrella"), b"of the old turn", "text/plain")
    expiry = Expiry(local_settings, store)
    now = AFTER_40_DAYS
    written_at(tmp_path / "content", now, coming["hash"])
    [one] = await contents.objects_of(key("old", "umbrella"))
    assert one.modified > BEGIN + 1000, "what is referred to anew counts as written now"
    written_at(tmp_path / "content", now, again["hash"], folder(key("old", "umbrella")))
    assert await expiry.would_go(now) == Expired(2, 2, 3, 2 * 15 + 32)
    assert await round_of(expiry, now) == Expired(2, 2, 1, 15)
    assert await contents.get(key("old"), coming)
    assert await contents.get(key("old", "umbrella"), again)
    assert await contents.get(key("g", "globex"), kept) == b"of another"
    newer = record("old", "r2")
    newer["turn"] |= {"completed_at": "2026-03-01T10:00:00Z"}
    newer["turn"]["messages"][0]["parts"] = [
        {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "content_ref": coming}
    ]
    await write_turns(store, [newer])
    assert await expired_remnants(store) == 2
    assert await round_of(expiry, now + 20 * DAY_MS - RECHECK_MS) == Expired(0, 0, 1, 15)
    assert await contents.get(key("old"), coming), "it has come"
    await round_of(expiry, now + 20 * DAY_MS)
    assert await expired_remnants(store) == 0


async def test_values_that_a_replay_has_kept_again_go_too(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    contents = ContentStore.of(local_settings)
    ref = await contents.put(key("old"), b"kept again by the assembly of a replay", "text/plain")
    replayed = record("old")
    replayed["turn"]["messages"][0]["parts"] = [
        {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "content_ref": ref}
    ]
    far = BEGIN + 9000 * DAY_MS
    assert (await write_turns(store, [replayed], local_settings.kept_for, far)).expired == (0,)
    assert await stored(store) == set()
    assert (await round_of(Expiry(local_settings, store), far)).objects == 1
    with pytest.raises(StoreError):
        await contents.get(key("old"), ref)


async def test_the_archive_loses_the_rows_of_expired_threads_and_gets_none_of_them(
    store: ThreadStore, archived_settings: Settings, record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_upkeep, "RECENT", -1.0)  # so that snapshots go at once
    tables = 2 if str(archived_settings.archive).startswith(LAKE) else 1
    records = [
        record(chat, f"r{n}", tenant=tenant) for n in range(3) for chat, tenant in (("o", None), ("g", "globex"))
    ]
    lone = [record("o", f"lone{n}") for n in range(2)]
    await write_turns(store, [*records, *lone])
    archive = archive_of(archived_settings, partial(erased_among, store))
    for partition, some in ((0, records), (1, lone)):
        entries = [Entry(n, 0, turn_record.encode(one)) for n, one in enumerate(some)]
        assert (await archive.write("turns", partition, 0, len(some), entries)).rows == len(some)
    expiry = Expiry(archived_settings, store)
    assert await expiry.would_go(AFTER_40_DAYS) == Expired(1, 5, archived=5)
    assert await round_of(expiry, AFTER_40_DAYS) == Expired(1, 5, archived=5)
    assert await archive.threads_of("globex") == {key("g", "globex")}
    assert (await archive.threads_of(""), await archive.holding("globex")) == (set(), tables)
    assert len(list((tmp_path / "archive").rglob("*.parquet"))) == tables, "an object without rows is deleted"
    assert await expired_remnants(store) == 1, "another look is to prove that nothing is left"
    assert await round_of(expiry, AFTER_40_DAYS + RECHECK_MS) == Expired()
    assert await expired_remnants(store) == 0

    def expired(thread: ThreadKey, ended_at: int) -> bool:
        return archived_settings.kept_for.expired(thread.tenant, ended_at, AFTER_40_DAYS)

    entries = [Entry(n, 0, turn_record.encode(one)) for n, one in enumerate(records)]
    written = await archive.write("turns", 2, 0, len(records), entries, expired)
    assert (written.rows, written.expired) == (0 if tables == 2 else 3, 3)  # tables have these three already
    assert await archive.threads_of("") == set()


async def test_what_comes_of_a_held_thread_is_kept_however_old_it_is(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    kept_for, later = local_settings.kept_for, AFTER_40_DAYS
    await hold_thread(store, key("held"))
    records = [record("held"), record("old"), record("held", "r2")]
    written = await write_turns(store, records, kept_for, later)
    assert (written.inserted, written.expired) == (2, (1,))
    assert await compare_turns(store, [record("held", "r3"), record("old")], kept_for, later) == WriteResult(
        inserted=1, unchanged=1, expired=(1,)
    )
    assert await round_of(Expiry(local_settings, store), later) == Expired()

    def expired(thread: ThreadKey, ended_at: int) -> bool:
        return kept_for.expired(thread.tenant, ended_at, later)

    archive = archive_of(local_settings, partial(erased_among, store))
    entries = [Entry(n, 0, turn_record.encode(one)) for n, one in enumerate(records)]
    archived = await archive.write("turns", 0, 0, len(records), entries, expired, partial(held_threads, store))
    assert (archived.rows, archived.expired) == (2, 1)
    await release_thread(store, key("held"))
    assert await round_of(Expiry(local_settings, store), later) == Expired(1, 2, archived=2)


async def test_an_archive_that_is_slower_than_the_expiry_leaves_nothing_behind(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    """It began to write while the thread was young enough, and the object is there only now."""
    await write_turns(store, [record("old")])
    expiry, archive = Expiry(local_settings, store), archive_of(local_settings, partial(erased_among, store))
    assert await round_of(expiry, AFTER_40_DAYS) == Expired(1, 1)
    await archive.write("turns", 0, 0, 1, [Entry(0, 0, turn_record.encode(record("old")))])
    assert await round_of(expiry, AFTER_40_DAYS + RECHECK_MS) == Expired(archived=1)
    assert await round_of(expiry, AFTER_40_DAYS + 2 * RECHECK_MS) == Expired()
    assert await expired_remnants(store) == 0


async def test_one_that_dies_in_the_middle_leaves_nothing_behind(
    store: ThreadStore, archived_settings: Settings, record: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await write_turns(store, [record("old", tenant="umbrella")])
    contents = ContentStore.of(archived_settings)
    await contents.put(key("old", "umbrella"), b"large", "text/plain")
    written_at(tmp_path / "content", BEGIN)
    entries = [Entry(0, 0, turn_record.encode(record("old", tenant="umbrella")))]
    archive = archive_of(archived_settings, partial(erased_among, store))
    await archive.write("turns", 0, 0, 1, entries)
    first = Expiry(archived_settings, store)

    async def away(*_: object) -> None:
        raise StoreError("the bucket is away", transient=True)

    monkeypatch.setattr(first.archives[0], "expire", away)
    with pytest.raises(StoreError):
        await round_of(first, AFTER_40_DAYS)
    assert await stored(store) == set()
    assert await archive.holding("umbrella") > 0
    assert (await round_of(Expiry(archived_settings, store), AFTER_40_DAYS + RECHECK_MS)).archived == 1
    await round_of(Expiry(archived_settings, store), AFTER_40_DAYS + 2 * RECHECK_MS)
    assert (await archive.holding("umbrella"), await contents.objects_of(key("old", "umbrella"))) == (0, [])
    assert await expired_remnants(store) == 0


async def test_one_process_at_a_time_is_at_it(store: ThreadStore, store_url: str) -> None:
    async with await ThreadStore.open(store_url) as other:
        assert await lease_expiry(store, "one", 100, 200)
        assert not await lease_expiry(other, "two", 150, 250)
        assert await lease_expiry(store, "one", 150, 250)
        assert await lease_expiry(other, "two", 250, 350), "the first one has died"
        assert not await lease_expiry(store, "one", 251, 351)


async def test_writers_and_several_expiries_at_once_leave_what_is_young(
    store: ThreadStore, store_url: str, local_settings: Settings, record: Any
) -> None:
    old = [record(f"old{n}", f"r{run}") for n in range(20) for run in range(3)]
    await write_turns(store, old)

    def young(n: int, run: str) -> Any:
        one = record(f"old{n}", run)
        one["turn"] |= {"started_at": "2026-02-28T10:00:00Z", "completed_at": "2026-02-28T10:00:01Z"}
        return one

    async def expire_all() -> Expired:
        async with await ThreadStore.open(store_url) as own:
            return await round_of(Expiry(local_settings, own), AFTER_40_DAYS)

    async def write(seed: int) -> None:
        async with await ThreadStore.open(store_url) as own:
            for n in range(0, 20, 2):
                while not await written(own, [young(n, f"new{seed}"), *old]):
                    pass

    async def written(own: ThreadStore, records: Sequence[Any]) -> bool:
        try:
            await write_turns(own, records, local_settings.kept_for, AFTER_40_DAYS)
        except StoreError as error:
            if not error.transient:
                raise
            return False
        return True

    done = await asyncio.gather(expire_all(), expire_all(), write(0), write(1))
    assert await stored(store) == {key(f"old{n}") for n in range(0, 20, 2)}
    assert sum(one.threads for one in done[:2]) >= 10
    await summed(store)
    assert (await compare_sums(store)).wrong == ()
    assert await tokens(store, "tenant") == 10 * (20 * 3 + 10 * 2), "each turn counts once, whenever it went"


async def test_the_store_role_lets_threads_expire_and_counts_them(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(
        store, [record("old", f"r{n}") for n in range(3)]
    )  # long ago by the time of this machine, or it waits

    async def opened() -> ThreadStore:
        return store

    async def clock() -> int:
        return now_ms()

    metrics = Metrics()
    expiring = expiring_of(local_settings.model_copy(update={"store_retention": "1d"}), opened, metrics, clock)

    async def gone() -> bool:
        expiring.step()
        return await stored(store) == set()

    await until(gone)
    assert expiring.under_way is not None
    await expiring.under_way
    assert metrics.registry.get_sample_value(m.EXPIRED_THREADS.name) == 1
    assert metrics.registry.get_sample_value(m.EXPIRED_TURNS.name) == 3
    never = expiring_of(local_settings.model_copy(update={"store_retention": None}), opened, metrics, clock)
    never.step()
    assert never.under_way is None


def test_the_command_says_what_would_go_and_then_deletes_it(
    store_url: str, tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"STORE": store_url, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(f"TURNMILL_{name}", value)

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await write_turns(store, [record("one"), record("one", "r2"), record("two", tenant="acme"), record("held")])
            await hold_thread(store, key("held"))

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, ["store", "expire", *args], standalone_mode=False)

    asyncio.run(fill())
    assert "set TURNMILL_STORE_RETENTION" in str(run().exception)
    monkeypatch.setenv("TURNMILL_STORE_RETENTION", "1d,acme=forever")
    for args, done in ((("--dry-run",), "would go"), (("--dry-run",), "would go"), ((), "gone"), ((), "gone")):
        lines = [line for line in run(*args).output.splitlines() if "pipeline.audit" not in line]
        what = "0 threads of 0 turns" if lines[0] == f"{done}: 0 threads of 0 turns, 0 large values of 0 bytes" else ""
        assert lines[1] == "1 thread held, and left: `turnmill threads hold` lists them"
        if not what:
            assert lines[0] == f"{done}: 1 thread of 2 turns, 0 large values of 0 bytes"
    assert what, "the second time nothing is left"


CHATS: Final = ("c0", "c1", "c2")
STEPS: Final = ("write", "write", "again", "hold", "release", "expire", "erase", "later")


async def test_any_history_leaves_what_is_young_or_held_and_nothing_else(tmp_path: Path, record: Any) -> None:
    """Beside the store runs a model of it: (chat, turn) -> when it ended; and what all turns have used, each once."""
    loop = asyncio.get_running_loop()
    kept_for = Retention(30 * DAY_MS)
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    given_settings = load({}, home=tmp_path, store=url, store_retention="30d")

    def made(chat: str, run: str, day: int) -> Any:
        one = record(chat, run)
        at = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T10:00:0"
        one["turn"] |= {"started_at": f"{at}0Z", "completed_at": f"{at}1Z"}
        one["turn"]["messages"][0]["timestamp"] = f"{at}0Z"
        return one

    def ended(one: Any) -> int:
        return epoch_ms(one["turn"]["completed_at"]) or 0

    async def play(steps: Sequence[tuple[str, str, int]]) -> None:
        async with await ThreadStore.open(url) as store:
            async with store.writing() as connection:
                for table in (*(expired_table,), *_all_tables()):
                    await connection.execute(table.delete())
                await connection.execute(update(usage_state).values(kept=True, since=None))
            now, day = BEGIN, 20
            model: dict[str, dict[str, int]] = {chat: {} for chat in CHATS}
            held, erased_ones = set[str](), set[str]()
            live, gone_by_age = Counter[str](), 0
            past: list[Any] = []
            for number, (name, chat, amount) in enumerate(steps):
                if name == "later":
                    day += amount
                    now += amount * DAY_MS
                elif name in ("write", "again"):
                    if name == "write":
                        past.append(made(chat, f"r{number}", max(0, day - amount)))
                    for one in past if name == "again" else past[-1:]:
                        whose = next(each for each in CHATS if thread_uuid(each)[0] == one["thread_id"])
                        old = kept_for.expired(None, ended(one), now)
                        if whose not in erased_ones and (not old or one["turn_id"] in model[whose]):
                            model[whose][one["turn_id"]] = ended(one)
                    await write_turns(store, past if name == "again" else past[-1:], kept_for, now)
                elif name == "hold" and chat not in erased_ones:
                    await hold_thread(store, key(chat))
                    held.add(chat)
                elif name == "release":
                    await release_thread(store, key(chat))
                    held.discard(chat)
                elif name == "erase" and chat not in held:
                    await erase(given_settings, store, key(chat), "a test")
                    model[chat] = {}
                    erased_ones.add(chat)
                elif name == "expire":
                    await round_of(Expiry(given_settings, store), now)
                    for each, its_turns in model.items():
                        if each not in held and its_turns and kept_for.expired(None, max(its_turns.values()), now):
                            gone_by_age += len(its_turns)
                            model[each] = {}
                live = Counter({each: len(its_turns) for each, its_turns in model.items() if its_turns})
                found = {one.thread_id: one.turns for one in (await list_threads(store)).threads}
                assert found == {key(each).thread_id: count for each, count in live.items()}, (name, chat)
            await summed(store)
            assert (await compare_sums(store)).wrong == ()
            assert await tokens(store, "tenant") == 10 * (live.total() + gone_by_age)

    def run(steps: Any) -> None:
        asyncio.run_coroutine_threadsafe(play(steps), loop).result()

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(
            st.tuples(st.sampled_from(STEPS), st.sampled_from(CHATS), st.sampled_from([0, 5, 20, 29, 31, 40])),
            min_size=4,
            max_size=16,
        )
    )
    def check(steps: Any) -> None:
        run(steps)

    await asyncio.to_thread(check)


def _all_tables() -> list[Any]:
    names = ("threads", "holds", "erased", "usage_changes", "usage_sums", "usage_names")
    return [threads.metadata.tables[name] for name in names]
