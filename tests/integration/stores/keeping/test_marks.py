"""Marks in every field that a turn, a delivery, or a webhook can carry: after the erasure no byte on disk has one."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import select

from pipeline.policies.retention import DAY_MS, Retention
from pipeline.policies.webhooks import EVENTS, Event, Webhook, lane_of, secret_of
from pipeline.settings import LAKE, Settings, load
from pipeline.stores.archive.turn_archive import Entry, archive_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.packing import MAGIC
from pipeline.stores.database.schema import metadata, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, erase, scrub
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.keeping.tenant_erasure import erase_tenant, what_is_left
from pipeline.stores.outbound.deliveries import add_webhook, enqueue
from pipeline.stores.threads import statements
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import sum_up
from pipeline.turns.requests import digest
from tests.support.stored_threads import thread_keys
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

MARK = re.compile(rb"markof[a-z]+", re.IGNORECASE)
TENANT = "markoftenant1"  # a digit ends a mark, whatever stands behind it
STAYS = ThreadKey.of(thread_uuid("other 3")[0], None)
GONE = ThreadKey.of(thread_uuid("markofchat")[0], TENANT)


@pytest.fixture(params=["objects", "tables"])
def local_settings(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> Settings:
    kind = LAKE if request.param == "tables" else ""
    if kind and not store_url.startswith("sqlite:"):
        pytest.skip("to tables, databases are alike")
    places = {"content": (tmp_path / "content").as_uri(), "archive": f"{kind}{(tmp_path / 'archive').as_uri()}"}
    return load({}, home=tmp_path, store=store_url, **places)


def marked(record: Any, run: str = "markofrun", **more: Any) -> Any:
    fields: dict[str, Any] = {"tenant": TENANT, "agent_id": "markofagent", "model": "markofmodel1"}
    made = record("markofchat", run, text="markoftext " * 3000, **fields | more)
    made["agents"][0]["agent_name"] = "markofname"
    made["thread"] |= {"meta:labels": {"user": "markofperson1", "branch": "markofbranch1", "tags": ["markoftag1"]}}
    made["thread"] |= {"title": "markoftitle", "facts": {"markoffact": "markofvalue"}}
    response = made["turn"]["messages"][0]
    response["finish_reason"] = "markofreason"
    response["parts"].append({"part_kind": "tool-call", "tool_name": "markoftool", "args": {"a": "markofargs"}})
    body = {"system": "markofsystem " * 100, "metadata": {"user": "markofuser"}}
    response["meta:request"] = {"sha256": digest(body)}
    made["requests"] = {digest(body): body}
    made["links"] = [{"relation": "referenced", "thread_id": thread_uuid("markoflink")[0], "metadata": "markofmeta"}]
    return made


async def fill(store: ThreadStore, settings: Settings, record: Any) -> None:
    """Other threads around it, so that what is deleted shares pages and parts of the index with what stays."""
    others = [record(f"other {n}", text=f"what stays {n} " * 20, seconds=n + 1) for n in range(40)]
    await write_turns(store, others[:20])
    await write_turns(store, [marked(record, status="interrupted"), others[20]])
    await write_turns(store, [marked(record, revision=1, text2="x"), *others[21:]])
    await write_turns(store, [marked(record, "markofsecond", seconds=9)])
    while await sum_up(store):
        pass
    contents = ContentStore.of(settings)
    await contents.put(GONE, b"markoflarge " * 1000, "text/markofmedia")
    entries = [Entry(n, 0, turn_record.encode(one)) for n, one in enumerate([marked(record), *others[:3]])]
    await archive_of(settings, partial(erased_among, store)).write("turns", 0, 0, len(entries), entries)
    await add_webhook(
        store, Webhook("wh_1", "https://example.com/markofurl", EVENTS, TENANT, (secret_of(b"markofsecret" * 3),), 1)
    )
    lane, payload = lane_of(TENANT, GONE.thread_id), b'{"text": "markofpayload"}'
    turn = Event("t1", "turn.completed", TENANT, lane, 5, payload, ("turns", 1, 2), GONE)
    await enqueue(store, [("wh_1", turn), ("for all", turn)], 10)


def on_disk(folder: Path) -> Iterator[tuple[str, str]]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield from {(file.name, found.decode().lower()) for found in MARK.findall(file.read_bytes())}


async def in_rows(store: ThreadStore) -> dict[str, set[str]]:
    """Table -> the marks in any of its columns, as text."""
    found = dict[str, set[str]]()
    async with store.reading() as connection:
        for table in metadata.sorted_tables:
            for row in await connection.execute(table.select()):
                text = "".join(str(value) for value in row).encode()
                if marks := {one.decode().lower() for one in MARK.findall(text)}:
                    found.setdefault(table.name, set()).update(marks)
    return found


PIECE = 12  # bytes of a packed record: enough that none is anywhere by chance


async def pieces_of(store: ThreadStore, key: ThreadKey) -> set[bytes]:
    """Pieces of the packed records of a thread: what is packed has no mark in clear."""
    of_thread = select(turns.c.record).where(turns.c.thread == statements.number_of(key))
    async with store.reading() as connection:
        stored = list(await connection.scalars(of_thread))
    assert all(record.startswith(MAGIC) for record in stored)
    return {record[at : at + PIECE] for record in stored for at in range(20, len(record) - PIECE)}


def has_pieces(folder: Path, pieces: set[bytes]) -> set[str]:
    """Which files have some of them."""
    data = {file.name: file.read_bytes() for file in folder.rglob("threads.db*")}
    return {
        name for name, held in data.items() if any(held[at : at + PIECE] in pieces for at in range(len(held) - PIECE))
    }


async def test_no_byte_of_a_thread_stays_and_then_none_of_its_tenant(
    store: ThreadStore, local_settings: Settings, record: Any, tmp_path: Path
) -> None:
    await fill(store, local_settings, record)
    before = await in_rows(store)
    assert {"threads", "turns", "agents", "usage_names", "webhooks", "webhook_deliveries"} <= before.keys()
    assert {"labels", "usage_tags"} <= before.keys()
    assert set(on_disk(tmp_path))  # or nothing is proved below
    pieces, others = await pieces_of(store, GONE), await pieces_of(store, STAYS)
    pieces -= others
    assert has_pieces(tmp_path, others) or not list(tmp_path.rglob("threads.db"))
    assert (await erase(local_settings, store, GONE, "a test")).stored
    until_summed = {"markofmodel", "markofagent", "markofperson", "markofbranch", "markoftag"}
    assert {mark for _, mark in on_disk(tmp_path)} <= {"markoftenant", "markofurl", *until_summed}
    assert has_pieces(tmp_path, pieces) == set()
    while await sum_up(store):
        pass
    # The mark; who hears of it; the tenant's own address; its changes, until their topic has them.
    may_stay = {"erased", "notices", "webhooks"}
    assert (await in_rows(store)).keys() <= may_stay
    of_tenant = {"markoftenant", "markofurl"}
    await scrub(store)  # names went when the sums were brought up to date
    assert {mark for _, mark in on_disk(tmp_path)} <= of_tenant
    await erase_tenant(local_settings, store, TENANT, "a test", lambda _: None)
    assert (await what_is_left(local_settings, store, TENANT)).nothing
    async with store.writing() as connection:  # as the topic has it
        await connection.exec_driver_sql("DELETE FROM notices")
    await scrub(store)
    assert await in_rows(store) == {"erased": {"markoftenant"}}
    assert {mark for _, mark in on_disk(tmp_path)} <= {"markoftenant"}
    assert len([one async for one in thread_keys(store)]) == 40


async def test_sums_of_what_expired_name_nobody_behind_the_tenant(
    store: ThreadStore, local_settings: Settings, record: Any
) -> None:
    await fill(store, local_settings, record)
    await expire(store, [GONE], Retention(DAY_MS), 2_000_000_000_000)
    await erase_tenant(local_settings, store, TENANT, "a test", lambda _: None)
    assert (await in_rows(store)).keys() <= {"erased", "notices"}


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_postgres_keeps_bytes_until_vacuum(store: ThreadStore, store_url: str, record: Any) -> None:
    """What docs/retention.md says of its pages: dead rows, until VACUUM has been there."""
    key = ThreadKey.of(thread_uuid("gone")[0], None)
    await write_turns(store, [record("gone", text="markofvacuum")])
    pieces = await pieces_of(store, key)
    await delete_thread(store, key)
    connection = await asyncpg.connect(store_url)

    async def has_mark() -> bool:
        await connection.execute("CHECKPOINT")
        page = await connection.fetchval("SELECT pg_read_binary_file(pg_relation_filepath('turns'))")
        return any(piece in page for piece in pieces)

    try:
        assert await has_mark()
        await connection.execute("VACUUM turns")
        assert not await has_mark()
    finally:
        await connection.close()
