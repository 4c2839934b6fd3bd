"""A thread that was erased is gone, with all that belongs to it, and nothing brings it back."""

import asyncio
import time
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
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import Erasure, erase
from pipeline.stores.outbound.notices import due_notices, notices_sent
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.reading import (
    all_documents,
    erased_among,
    find_threads,
    read_thread,
    spawned_threads,
)
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.turns import compare_turns, write_turns
from pipeline.worker.sinks.role import turn_writer
from tests.support.stored_threads import thread_keys
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

GONE, KEPT = thread_uuid("gone")[0], thread_uuid("kept")[0]


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    return load({}, home=tmp_path, store=store_url, content=(tmp_path / "content").as_uri())


async def test_nothing_of_it_is_left_and_a_replay_brings_nothing_back(
    store: ThreadStore, local_settings: Settings, record: Any, tables: Any
) -> None:
    await write_turns(store, [record("kept")])
    contents = ContentStore.of(local_settings)
    await contents.put(ThreadKey(KEPT), b"of another", "text/plain")
    before = await tables()
    records = [record("gone", f"r{n}", revision=n) for n in range(3)]
    await write_turns(store, records)
    await contents.put(ThreadKey(GONE), b"large", "text/plain")
    assert await erase(local_settings, store, ThreadKey(GONE), "a test") == Erasure(stored=True, objects=1, segments=0)
    for _ in range(2):  # as they were, newer, and in a batch with others
        newer = record("gone", "r0", revision=99)
        assert await write_turns(store, [*records, newer, record("kept")]) == WriteResult(
            unchanged=5, erased=(ThreadKey(GONE),)
        )
    after = await tables()
    assert [row["thread_key"] for row in after.pop("erased")] == [GONE]
    assert before.pop("erased") == []
    # Its id, that it went, and its mark, until the topics know.
    mark, notice = await due_notices(store, time.time_ns() // 1_000_000)
    assert mark["type"] == "store.changed"
    assert (notice["thread_id"], notice["data"]) == (GONE, {"reason": "deleted"})
    await notices_sent(store, [mark["id"], notice["id"]], 1)
    assert await due_notices(store, time.time_ns() // 1_000_000) == []
    assert after == before
    assert await find_threads(store, "gone") == ()
    assert await erased_among(store, [ThreadKey(GONE), ThreadKey(KEPT)]) == {ThreadKey(GONE)}
    assert await erase(local_settings, store, ThreadKey(GONE), "a test") == Erasure(stored=False, objects=0, segments=0)


async def test_links_of_other_threads_to_it_are_not_shown(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    to_gone = {"thread_id": GONE, "relation": "spawned_from", "metadata": {"about": "somebody"}}
    to_kept = {"thread_id": KEPT, "relation": "referenced"}
    await write_turns(store, [record("child", links=[to_gone, to_kept]), record("kept"), record("gone")])
    await write_turns(store, [record("child", "of its own")])
    child = thread_uuid("child")[0]
    assert len((await read_thread(store, ThreadKey(child)) or {})["relationships"]["links"]) == 2
    assert [one.thread_id for one in await spawned_threads(store, ThreadKey(GONE))] == [child]
    await erase(local_settings, store, ThreadKey(GONE), "a test")
    assert (await read_thread(store, ThreadKey(child)) or {})["relationships"] == {"links": [to_kept]}
    assert [one async for _, one in all_documents(store)] == [
        await read_thread(store, ThreadKey(id_)) for id_ in sorted([child, KEPT])
    ]
    await write_turns(store, [record("child", links=[to_gone], revision=1)])
    assert "relationships" not in (await read_thread(store, ThreadKey(child)) or {})


def by(chat: str) -> dict[str, Any]:
    """What a record of a sub-agent says that a run of this conversation has started."""
    return {"parent": {"thread_id": thread_uuid(chat)[0]}, "links": [link(chat)]}


def link(chat: str, **fields: Any) -> dict[str, Any]:
    return {"thread_id": thread_uuid(chat)[0], "relation": "spawned_from", **fields}


def ids(*chats: str) -> list[ThreadKey]:
    return [ThreadKey(thread_uuid(chat)[0]) for chat in chats]


async def stored(store: ThreadStore) -> set[ThreadKey]:
    return {key async for key in thread_keys(store)}


async def test_threads_of_its_sub_agents_alone_go_with_it(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    """`spoken`: a user went on in the sub-agent's thread; `shared`: another thread has started a run in it, too.
    `told`: the thread says that it has spawned it, but its own runs don't.
    """
    await write_turns(
        store,
        [
            record("gone", links=[link("gone", **{"from": thread_uuid("told")[0]})]),
            record("told"),
            record("child", "r", "user", role="user", parent={"thread_id": GONE}),
            record("child", **by("gone")),
            record("older", "r", "user", role="user"),
            record("older", links=[link("gone")]),
            record("below", **by("child")),
            record("spoken", **by("gone")),
            record("spoken", "r2"),
            record("shared", **by("gone")),
            record("shared", "r2", **by("kept")),
            record("kept"),
            record("beside", **by("kept")),
        ],
    )
    contents = ContentStore.of(local_settings)
    for key in ids("child", "below", "spoken"):
        await contents.put(key, b"large", "text/plain")
    erased = await erase(local_settings, store, ThreadKey(GONE), "a test")
    assert (erased.stored, erased.objects) == (True, 2)
    assert set(erased.sub_agents) == set(ids("child", "older", "below"))
    assert await stored(store) == set(ids("told", "spoken", "shared", "kept", "beside"))
    assert (await read_thread(store, ids("spoken")[0]) or {}).get("relationships") is None
    assert set((await erase(local_settings, store, ThreadKey(KEPT), "a test")).sub_agents) == set(
        ids("beside", "shared")
    )
    assert await stored(store) == set(ids("told", "spoken"))


async def test_sub_agents_of_another_tenants_thread_with_its_id_stay(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    acme, evil = ({"tenant": tenant} for tenant in ("acme", "evil"))
    for who in (acme, evil):
        await write_turns(store, [record("gone", **who), record("c", **by("gone"), **who)])
    erased = await erase(local_settings, store, ThreadKey(GONE, "acme"), "a test")
    assert erased.sub_agents == (ThreadKey(thread_uuid("c")[0], "acme"),)
    assert await stored(store) == {ThreadKey(thread_uuid(chat)[0], "evil") for chat in ("gone", "c")}


async def test_what_a_run_under_way_brings_of_sub_agents_is_dropped(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(store, [record("gone"), record("spoken")])
    await erase(local_settings, store, ThreadKey(GONE), "a test")
    late = [record("late", **by("gone")), record("below", **by("late")), record("spoken", "r2", **by("gone"))]
    assert (await compare_turns(store, late[:1])).erased == tuple(ids("late"))
    assert (await write_turns(store, late[:1])).erased == tuple(ids("late"))
    assert (await write_turns(store, late)).erased == tuple(sorted(ids("late", "below"), key=lambda key: key.text))
    assert await stored(store) == set(ids("spoken"))


async def test_late_spans_do_not_bring_it_back_in_another_thread(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    """Where no span names the conversation, the thread of a trace follows from words, so from what has come of it."""
    trace, beside = "a" * 32, f"{'a' * 32}.{'b' * 16}"
    await write_turns(store, [record("gone", trace, dialect="otel"), record("spoken", beside, dialect="otel")])
    await erase(local_settings, store, ThreadKey(GONE), "a test")
    late = [record("anew", trace, dialect="otel", revision=1), record("spoken", beside, dialect="otel", revision=1)]
    for _ in range(2):
        assert (await compare_turns(store, late)).erased == tuple(ids("anew"))
        assert (await write_turns(store, late)).erased == tuple(ids("anew"))
    others = [record("other", trace), record("theirs", trace, dialect="otel", tenant="acme")]
    await write_turns(store, others)  # the run of another wire has this id, and another tenant's
    theirs = ThreadKey(thread_uuid("theirs", "acme")[0], "acme")
    assert {key.thread_id for key in await stored(store)} >= {key.thread_id for key in ids("spoken", "other")}
    assert len(await stored(store)) == 3, theirs


async def test_an_erasure_in_the_middle_of_a_run_leaves_nothing_of_its_sub_agents(
    store: ThreadStore, store_url: str, local_settings: Settings, record: Any
) -> None:
    """Writers of sub-agents' turns, and the erasures of their parents, all at once."""
    chats = [f"chat{n}" for n in range(6)]

    async def write(seed: int) -> None:
        async with await ThreadStore.open(store_url) as own:
            for n in range(6):
                made = [record(f"{chat}-sub{seed}", f"r{n}", **by(chat)) for chat in chats]
                await write_turns(own, [*made, *(record(chat, f"r{seed}-{n}") for chat in chats)])

    async def erase_all() -> None:
        for key in ids(*chats):
            await erase(local_settings, store, key, "a test")

    await asyncio.gather(erase_all(), *map(write, range(3)))
    assert await stored(store) == set()


async def test_a_writer_that_is_in_the_middle_does_not_bring_it_back(
    store: ThreadStore, store_url: str, local_settings: Settings, record: Any
) -> None:
    """Writers and erasures of the same threads, all at once: no erased thread is there in the end."""
    others = [await ThreadStore.open(store_url) for _ in range(3)]
    chats = [f"chat{n}" for n in range(12)]

    async def write(one: ThreadStore, seed: int) -> None:
        for n in range(8):
            await write_turns(one, [record(chat, f"r{seed}-{n}") for chat in chats])

    async def erase_all() -> None:
        for chat in chats[:8]:
            await erase(local_settings, store, ThreadKey(thread_uuid(chat)[0]), "a test")

    try:
        await asyncio.gather(erase_all(), *(write(one, seed) for seed, one in enumerate(others)))
    finally:
        for one in others:
            await one.close()
    left = {key.thread_id async for key in thread_keys(store)}
    assert left == {thread_uuid(chat)[0] for chat in chats[8:]}
    assert {summary.turns for summary in (await list_threads(store)).threads} == {24}


async def test_the_store_role_drops_it_with_the_values_that_a_replay_has_kept_again(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await write_turns(store, [record("gone")])
    await erase(local_settings, store, ThreadKey(GONE), "a test")
    contents = ContentStore.of(local_settings)
    await contents.put(ThreadKey(GONE), b"kept again by the assembly of a replay", "text/plain")
    kept = await contents.put(ThreadKey(KEPT), b"of another", "text/plain")
    metrics = Metrics()
    work = turn_writer(local_settings, metrics, Outbox(SimpleNamespace(send_batch=deque)))
    batch = [record("gone"), record("kept")]
    values = [turn_record.encode(one) for one in batch]
    await work.apply(
        [(0, [SimpleNamespace(offset=n, value=value, timestamp=now_ms()) for n, value in enumerate(values)])]
    )
    await (await work.store.get()).close()
    assert await read_thread(store, ThreadKey(GONE)) is None
    assert await read_thread(store, ThreadKey(KEPT)) is not None
    assert await contents.delete_thread(ThreadKey(GONE)) == 0
    assert await contents.get(ThreadKey(KEPT), kept) == b"of another"
    assert metrics.registry.get_sample_value(m.STORE_ERASED.name) == 1


def test_the_command_erases_and_can_be_given_again(
    store_url: str, tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive fails in the middle: the thread is still found, and the second time it goes."""
    for name, value in {"STORE": store_url, "HOME": str(tmp_path), "ARCHIVE": (tmp_path / "archive").as_uri()}.items():
        monkeypatch.setenv(f"TURNMILL_{name}", value)
    (tmp_path / "archive").mkdir()
    broken = tmp_path / "archive" / "broken.parquet"
    broken.write_text("no parquet")

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await write_turns(store, [record("gone", thread={"external_id": "ticket 7"}), record("kept")])

    async def bring_back() -> WriteResult:
        async with await ThreadStore.open(store_url) as store:
            return await write_turns(store, [record("gone")])

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, args, standalone_mode=False)

    asyncio.run(fill())
    refused = run("threads", "delete", "--yes", "ticket 7")
    assert "broken.parquet" in str(refused.exception)
    assert asyncio.run(bring_back()).erased == (ThreadKey(GONE),)
    broken.unlink()
    assert run("threads", "delete", "--yes", "ticket 7").stdout == f"deleted {GONE}\n"
    assert [line.split()[0] for line in run("threads", "list").output.splitlines()] == ["thread", "kept"]
