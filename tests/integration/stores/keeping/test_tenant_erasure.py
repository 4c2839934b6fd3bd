"""A tenant that was erased is gone: from store, content store and archive; and a look at all three proves it."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.cli.stored.tenants import until
from pipeline.kafka.topic_plan import Found, Partition
from pipeline.policies.alerts import parse as parse_alerts
from pipeline.policies.retention import DAY_MS, Retention
from pipeline.policies.webhooks import EVENTS, Event, Webhook, lane_of, secret_of
from pipeline.settings import LAKE, Settings, load
from pipeline.stores.archive.turn_archive import Entry, archive_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping import erasure, tenant_erasure
from pipeline.stores.keeping.expiry import Expiry, expire
from pipeline.stores.keeping.holding import hold_thread, release_thread
from pipeline.stores.keeping.tenant_erasure import ARCHIVE, VALUES, erase_tenant, what_is_left
from pipeline.stores.outbound.deliveries import add_webhook, enqueue, waiting_deliveries
from pipeline.stores.outbound.notices import add_notices
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.alerts import look
from pipeline.stores.usage.summing import sum_up
from pipeline.stores.usage.tallies import SPANS
from tests.support.stored_threads import thread_keys
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

ALERTS = '[{"name": "costs", "figure": "cost_usd", "above": 0, "within": "1h", "by": "tenant"}]'
STRANGE = ("acme", "", "x" * 900, "a\0b", "ümlaut/slash")


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    places = {"content": (tmp_path / "content").as_uri(), "archive": (tmp_path / "archive").as_uri()}
    return load({}, home=tmp_path, store=store_url, **places)


@pytest.fixture(params=["objects", "tables"])
def archived_settings(request: pytest.FixtureRequest, local_settings: Settings, tmp_path: Path) -> Settings:
    """With an archive of either kind; tables beside one database are enough."""
    if request.param == "tables" and not local_settings.store_url.startswith("sqlite:"):
        pytest.skip("to tables, databases are alike")
    kind = LAKE if request.param == "tables" else ""
    return local_settings.model_copy(update={"archive": f"{kind}{(tmp_path / 'archive').as_uri()}"})


def key(chat: str, tenant: str) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


async def fill(store: ThreadStore, given: Settings, record: Any) -> None:
    """Three threads of each tenant in the store, of which one has a large value; one more in the archive alone."""
    contents, archive = ContentStore.of(given), archive_of(given, partial(erased_among, store))
    for number, tenant in enumerate(STRANGE):
        records = [record(f"chat{n}", tenant=tenant) for n in range(3)]
        await write_turns(store, records)
        await contents.put(key("chat0", tenant), b"large", "text/plain")
        await contents.put(key("nowhere else", tenant), b"also large", "text/plain")
        records.append(record("archived", tenant=tenant))
        entries = [Entry(n, 0, turn_record.encode(one)) for n, one in enumerate(records)]
        await archive.write("turns", number, 0, len(records), entries)


async def test_each_tenant_is_erased_by_itself_and_nothing_of_it_comes_back(
    store: ThreadStore, archived_settings: Settings, record: Any
) -> None:
    await fill(store, archived_settings, record)
    tables = str(archived_settings.archive).startswith(LAKE)
    objects = 2 if tables else 1  # a file of each table
    for number, tenant in enumerate(STRANGE):
        if tables and tenant.isascii() and "\0" not in tenant:  # the others are enough, as these take long
            continue
        before = await what_is_left(archived_settings, store, tenant)
        found = before.found
        assert (found["threads"], found[VALUES], found[ARCHIVE]) == (3, 2, objects), tenant
        assert await erase_tenant(archived_settings, store, tenant, "a test", lambda _: None) == ()
        after = await what_is_left(archived_settings, store, tenant)
        assert after.held == (), tenant
        assert after.nothing
        for other in STRANGE[number + 1 :]:
            assert (await what_is_left(archived_settings, store, other)).found["threads"] == 3, (tenant, other)
        for chat in ("chat0", "archived", "nowhere else"):
            assert (await write_turns(store, [record(chat, tenant=tenant, revision=9)])).erased
    assert tables or [one async for one in thread_keys(store)] == []


async def test_held_threads_stay_and_are_named(store: ThreadStore, local_settings: Settings, record: Any) -> None:
    await fill(store, local_settings, record)
    await hold_thread(store, key("chat1", "acme"))
    assert await erase_tenant(local_settings, store, "acme", "a test", lambda _: None) == (key("chat1", "acme"),)
    left = await what_is_left(local_settings, store, "acme")
    assert left.held == (key("chat1", "acme"),)
    assert (left.found["threads"], left.found[VALUES], left.found[ARCHIVE]) == (1, 0, 1)
    assert left.found["usage_sums"] > 0
    assert not left.nothing
    await release_thread(store, key("chat1", "acme"))
    assert await erase_tenant(local_settings, store, "acme", "a test", lambda _: None) == ()
    assert (await what_is_left(local_settings, store, "acme")).nothing


async def test_one_that_was_stopped_goes_on(
    store: ThreadStore, local_settings: Settings, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, local_settings, record)
    monkeypatch.setattr(tenant_erasure, "BATCH_SIZE", 2)
    for broken in ("delete_thread", "mark_erased", "sub_agents"):
        calls = 0
        real = getattr(erasure, broken)

        async def failing(*args: Any, real: Any = real) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise StoreError("the store is away", transient=True)
            return await real(*args)

        monkeypatch.setattr(erasure, broken, failing)
        with pytest.raises(StoreError):
            await erase_tenant(local_settings, store, "acme", "a test", lambda _: None)
        monkeypatch.setattr(erasure, broken, real)
        assert not (await what_is_left(local_settings, store, "acme")).nothing
    await erase_tenant(local_settings, store, "acme", "a test", lambda _: None)
    assert (await what_is_left(local_settings, store, "acme")).nothing
    assert (await what_is_left(local_settings, store, "")).found["threads"] == 3


async def test_what_its_expired_threads_have_used_goes_too(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(store, [record("old", tenant="acme"), record("other", tenant="globex")])
    gone = Expiry(local_settings.model_copy(update={"store_retention": "1d", "archive": None}), store)
    while (await gone.step(2_000_000_000_000))[1]:
        pass
    while await sum_up(store):
        pass
    assert (await what_is_left(local_settings, store, "acme")).found["usage_sums"] == len(SPANS)
    await erase_tenant(local_settings, store, "acme", "a test", lambda _: None)
    assert (await what_is_left(local_settings, store, "acme")).nothing
    assert (await what_is_left(local_settings, store, "globex")).found["usage_sums"] == len(SPANS)


def test_the_command_erases_checks_and_says_what_topics_keep(
    local_settings: Settings, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("store", "home", "content", "archive"):
        monkeypatch.setenv(f"TURNMILL_{name.upper()}", str(getattr(local_settings, name)))
    monkeypatch.setenv("TURNMILL_BROKERS", "127.0.0.1:1")
    held = key("chat1", "acme")

    async def make() -> None:
        async with await ThreadStore.open(local_settings.store_url, migrate=True) as store:
            await fill(store, local_settings, record)
            await hold_thread(store, held)

    async def release() -> None:
        async with await ThreadStore.open(local_settings.store_url) as store:
            await release_thread(store, held)

    def run(*args: str, **more: Any) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["tenants", *args], standalone_mode=False, **more)
        return result.exit_code, result.stdout

    asyncio.run(make())
    assert run("erase", "acme", input="n\n")[0] == 1
    code, said = run("check", "acme")
    assert code == 1
    assert "left: threads: 3" in said
    assert "no Kafka broker answers" in said
    code, said = run("erase", "acme", "--yes")
    assert code == 1
    assert f"held, and left: {held.thread_id}" in said
    assert "something is left of 'acme'" in said
    asyncio.run(release())
    code, said = run("erase", "acme", "--yes")
    assert (code, said.splitlines()[-1]) == (0, "nothing is stored of 'acme'")
    assert run("check", "acme")[0] == 0
    assert run("check", "")[0] == 1


@pytest.mark.parametrize(
    ("config", "end", "expected"),
    [
        ({"retention.ms": "-1"}, 5, "keeps what it has for ever: retention.ms is -1"),
        ({"retention.ms": "1000"}, 0, "has no records"),
        (
            {"retention.ms": "1000", "segment.ms": "2000"},
            5,
            "may have something until 1970-01-01T00:00:01.000Z, at the latest 1970-01-01T00:00:03.000Z",
        ),
        (
            {"retention.ms": "0"},
            5,
            "may have something until 1970-01-01T00:00:00.000Z, at the latest 1970-01-08T00:00:00.000Z",
        ),
    ],
)
def test_a_topic_keeps_what_it_has_for_its_retention_and_a_segment(
    config: dict[str, str], end: int, expected: str
) -> None:
    assert until(Found("t", (Partition(0, 1, (1,), (1,), 0, end),), config, {}), 0) == expected


async def test_what_hears_of_it_and_what_waits_goes_with_it(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    """Its webhooks with their secrets, deliveries, notices of its budgets, and what is remembered of expired threads;
    another tenant's stay. A deletion that the notices topic has not got yet is no leftover.
    """
    for tenant in ("acme", "globex"):
        gone = key("chat", tenant)
        made = Webhook(f"wh_{tenant}", "https://example.com", EVENTS, tenant, (secret_of(b"k" * 32),), 1)
        await add_webhook(store, made)
        turn = Event("t1", "turn.completed", tenant, lane_of(tenant, gone.thread_id), 5, b"{}", ("turns", 1, 2), gone)
        await write_turns(store, [record("chat", tenant=tenant), record("old", tenant=tenant)])
        await enqueue(store, [(made.id, turn)], 10)
        await expire(store, [key("old", tenant)], Retention(DAY_MS), 2_000_000_000_000)
        budget: Any = {"v": 1, "id": tenant, "type": "budget.reached", "at": 0, "data": {}, "tenant": tenant}
        await add_notices(store, [budget], 2**50)
        await look(store, parse_alerts(ALERTS), 1_768_903_260_000)  # about when the records are of
    before = (await what_is_left(local_settings, store, "acme")).found
    assert (before["webhooks"], before["expired"], before["notices"], before["alerts"]) == (1, 1, 2, 1)
    await erase_tenant(local_settings, store, "acme", "a test", lambda _: None)
    assert {
        place: count for place, count in (await what_is_left(local_settings, store, "acme")).found.items() if count
    } == {}
    assert await waiting_deliveries(store) == {"wh_globex": 1}
    after = (await what_is_left(local_settings, store, "globex")).found
    assert (after["webhooks"], after["expired"], after["notices"], after["alerts"], after["threads"]) == (1, 1, 2, 1, 1)
