"""A thread that is held stays, whoever deletes it, or the thread that started it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.observability.audit import local_user
from pipeline.settings import Settings, load
from pipeline.stores.database.errors import HeldThread
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping import holding as stored_holding
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.keeping.holding import held_threads, hold_thread, release_thread
from pipeline.stores.threads.reading import erased_among, read_thread
from pipeline.stores.turns import write_turns
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

ONE, CHILD, BELOW = (ThreadKey(thread_uuid(chat)[0]) for chat in ("one", "child", "below"))


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    return load({}, home=tmp_path, store=store_url)


async def test_a_held_thread_is_not_deleted_until_it_is_released(
    store: ThreadStore, local_settings: Settings, record: Any, tables: Any
) -> None:
    await write_turns(store, [record("one"), record("other")])
    assert await hold_thread(store, ONE)
    assert not await hold_thread(store, ONE), "it was held before"
    assert await held_threads(store) == {ONE} == await stored_holding.held_threads(store, [ONE, CHILD])
    before = await tables()
    with pytest.raises(HeldThread, match="held"):
        await erase(local_settings, store, ONE, "a test")
    assert await tables() == before, "nothing was marked or deleted"
    assert (await write_turns(store, [record("one", "r2")])).inserted == 1
    assert await release_thread(store, ONE)
    assert not await release_thread(store, ONE)
    assert (await erase(local_settings, store, ONE, "a test")).stored
    with pytest.raises(CallerError, match="deleted"):
        await hold_thread(store, ONE)
    assert await held_threads(store) == set()


async def test_a_name_that_columns_shorten_is_held_as_it_is(store: ThreadStore, record: Any) -> None:
    keys = [ThreadKey(ONE.thread_id, tenant) for tenant in ("x" * 900, "a\0b", "\ud800", "acme")]
    await write_turns(store, [record("one", tenant=key.tenant) for key in keys])
    for key in keys:
        await hold_thread(store, key)
    assert await held_threads(store) == set(keys) == await stored_holding.held_threads(store, keys)


async def test_a_sub_agents_held_thread_stays_with_what_it_has_started(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    def by(chat: str) -> dict[str, Any]:
        return {
            "parent": {"thread_id": thread_uuid(chat)[0]},
            "links": [{"thread_id": thread_uuid(chat)[0], "relation": "spawned_from"}],
        }

    await write_turns(store, [record("one"), record("child", **by("one")), record("below", **by("child"))])
    await hold_thread(store, CHILD)
    erased = await erase(local_settings, store, ONE, "a test")
    assert (erased.sub_agents, erased.held) == ((), (CHILD,))
    assert await erased_among(store, [ONE, CHILD, BELOW]) == {ONE}
    assert (await write_turns(store, [record("child", "r2", **by("one"))])).inserted == 1, "it goes on, too"
    assert {key async for key in thread_keys(store)} == {CHILD, BELOW}


async def test_a_hold_and_a_deletion_at_once_leave_one_of_both(
    store: ThreadStore, store_url: str, local_settings: Settings, record: Any
) -> None:
    keys = [ThreadKey(thread_uuid(f"chat{n}")[0]) for n in range(12)]
    await write_turns(store, [record(f"chat{n}") for n in range(12)])

    async def tried(work: Any) -> bool:
        try:
            await work
        except CallerError:
            return False
        return True

    async with await ThreadStore.open(store_url) as other:
        for key in keys:
            held, deleted = await asyncio.gather(
                tried(hold_thread(other, key)), tried(erase(local_settings, store, key, "a test"))
            )
            assert held != deleted
            assert (await read_thread(store, key) is not None) == held


def test_the_command_holds_lists_and_releases(
    store_url: str, tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await write_turns(store, [record("one", tenant="acme"), record("child")])

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, ["threads", *args], standalone_mode=False)

    asyncio.run(fill())
    assert run("hold").stdout == ""
    assert run("hold", ONE.thread_id, CHILD.thread_id).stdout == f"held {ONE.thread_id}\nheld {CHILD.thread_id}\n"
    assert run("hold", ONE.thread_id).stdout == f"held already: {ONE.thread_id}\n"
    assert run("hold").stdout.splitlines() == sorted([f"{ONE.thread_id}/acme", CHILD.thread_id])
    assert run("hold", "--tenant", "acme").stdout == f"{ONE.thread_id}/acme\n"
    assert isinstance(run("delete", "--yes", ONE.thread_id).exception, HeldThread)
    assert run("hold", "--release", ONE.thread_id).stdout == f"released {ONE.thread_id}\n"
    assert run("hold", "--release", ONE.thread_id).stdout == f"not held: {ONE.thread_id}\n"
    done = run("delete", "--yes", ONE.thread_id)
    assert done.stdout == f"deleted {ONE.thread_id}\n"
    assert f"deleting thread {ONE.thread_id}/acme, by {local_user()}" in done.stderr
    lines = [line for line in run("hold", CHILD.thread_id).stderr.splitlines() if "pipeline.audit" in line]
    assert lines[0].endswith(f"held thread {CHILD.text}, by {local_user()}")
    assert isinstance(run("hold", "--release").exception, CallerError)
