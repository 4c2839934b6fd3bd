"""A thread that was erased is gone, with all that belongs to it, and nothing brings it back."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.kafka.outbox import Outbox
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.content import ContentStore
from pipeline.stores.erasure import Erasure, erase
from pipeline.stores.sql import ThreadStore
from pipeline.stores.summaries import WriteResult
from pipeline.worker.store_role import TurnWriter
from threadmill.identity import thread_uuid
from topics import turn_record

GONE, KEPT = thread_uuid("gone")[0], thread_uuid("kept")[0]


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    return load({}, home=tmp_path, store=store_url, content=(tmp_path / "content").as_uri())


async def test_nothing_of_it_is_left_and_a_replay_brings_nothing_back(
    store: ThreadStore, local_settings: Settings, record: Any, tables: Any
) -> None:
    await store.write([record("kept")])
    contents = ContentStore.of(local_settings)
    await contents.put(KEPT, b"of another", "text/plain")
    before = await tables()
    records = [record("gone", f"r{n}", revision=n) for n in range(3)]
    await store.write(records)
    await contents.put(GONE, b"large", "text/plain")
    assert await erase(local_settings, store, GONE) == Erasure(stored=True, objects=1, segments=0)
    for _ in range(2):  # as they were, newer, and in a batch with others
        newer = record("gone", "r0", revision=99)
        assert await store.write([*records, newer, record("kept")]) == WriteResult(unchanged=5, erased=(GONE,))
    after = await tables()
    assert [row[0] for row in after.pop("erased")] == [GONE]
    assert before.pop("erased") == []
    assert after == before
    assert await store.find("gone") is None
    assert await store.erased([GONE, KEPT]) == {GONE}
    assert await erase(local_settings, store, GONE) == Erasure(stored=False, objects=0, segments=0)


async def test_links_of_other_threads_to_it_are_not_shown(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    to_gone = {"thread_id": GONE, "relation": "spawned_from", "metadata": {"about": "somebody"}}
    to_kept = {"thread_id": KEPT, "relation": "referenced"}
    await store.write([record("child", links=[to_gone, to_kept]), record("kept"), record("gone")])
    child = thread_uuid("child")[0]
    assert len((await store.thread(child) or {})["relationships"]["links"]) == 2
    assert [one.thread_id for one in await store.spawned(GONE)] == [child]
    await erase(local_settings, store, GONE)
    assert (await store.thread(child) or {})["relationships"] == {"links": [to_kept]}
    assert [one async for one in store.documents()] == [await store.thread(id_) for id_ in sorted([child, KEPT])]
    await store.write([record("child", links=[to_gone], revision=1)])
    assert "relationships" not in (await store.thread(child) or {})


async def test_a_writer_that_is_in_the_middle_does_not_bring_it_back(
    store: ThreadStore, store_url: str, local_settings: Settings, record: Any
) -> None:
    """Writers and erasures of the same threads, all at once: no erased thread is there in the end."""
    others = [await ThreadStore.open(store_url) for _ in range(3)]
    chats = [f"chat{n}" for n in range(12)]

    async def write(one: ThreadStore, seed: int) -> None:
        for n in range(8):
            await one.write([record(chat, f"r{seed}-{n}") for chat in chats])

    async def erase_all() -> None:
        for chat in chats[:8]:
            await erase(local_settings, store, thread_uuid(chat)[0])

    try:
        await asyncio.gather(erase_all(), *(write(one, seed) for seed, one in enumerate(others)))
    finally:
        for one in others:
            await one.close()
    left = {thread_id async for thread_id in store.thread_ids()}
    assert left == {thread_uuid(chat)[0] for chat in chats[8:]}
    assert {summary.turns for summary in (await store.threads()).threads} == {24}


async def test_the_store_role_drops_it_with_the_values_that_a_replay_has_kept_again(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await store.write([record("gone")])
    await erase(local_settings, store, GONE)
    contents = ContentStore.of(local_settings)
    await contents.put(GONE, b"kept again by the assembly of a replay", "text/plain")
    kept = await contents.put(KEPT, b"of another", "text/plain")
    metrics = Metrics()
    work = TurnWriter(local_settings, metrics, Outbox(SimpleNamespace(send_batch=deque)))
    batch = [record("gone"), record("kept")]
    await work.apply([(0, [SimpleNamespace(offset=n, value=turn_record.encode(one)) for n, one in enumerate(batch)])])
    assert work.store is not None
    await work.store.close()
    assert await store.thread(GONE) is None
    assert await store.thread(KEPT) is not None
    assert await contents.delete_thread(GONE) == 0
    assert await contents.get(KEPT, kept) == b"of another"
    assert metrics.registry.get_sample_value(m.STORE_ERASED.name) == 1


def test_the_command_erases_and_can_be_given_again(
    store_url: str, tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive fails in the middle: the thread is still found, and the second time it goes."""
    for name, value in {"STORE": store_url, "HOME": str(tmp_path), "ARCHIVE": (tmp_path / "archive").as_uri()}.items():
        monkeypatch.setenv(f"THREADMILL_{name}", value)
    (tmp_path / "archive").mkdir()
    broken = tmp_path / "archive" / "broken.parquet"
    broken.write_text("no parquet")

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await store.write([record("gone", thread={"external_id": "ticket 7"}), record("kept")])

    async def bring_back() -> WriteResult:
        async with await ThreadStore.open(store_url) as store:
            return await store.write([record("gone")])

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, args, standalone_mode=False)

    asyncio.run(fill())
    refused = run("threads", "delete", "--yes", "ticket 7")
    assert "broken.parquet" in str(refused.exception)
    assert asyncio.run(bring_back()).erased == (GONE,)
    broken.unlink()
    assert run("threads", "delete", "--yes", "ticket 7").output == f"deleted {GONE}\n"
    assert [line.split()[0] for line in run("threads", "list").output.splitlines()] == ["thread", KEPT]
