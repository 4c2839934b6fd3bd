"""A store adds turns to data sets once, reads them in pages, takes them out, and deletes them with thread or tenant."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import insert

from pipeline.__main__ import cli
from pipeline.policies.retention import DAY_MS, Retention
from pipeline.settings import load
from pipeline.stores.database.schema import dataset_turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase, mark_erased
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.keeping.tenant_erasure import rows_left
from pipeline.stores.threads import datasets as stored
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents, read_thread
from pipeline.stores.turns import write_turns
from pipeline.turns.thread_document import UnknownTurn
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

Command = Callable[..., Result]


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


async def in_set(store: ThreadStore, name: str = "golden", tenant: str = "") -> list[tuple[int, str]]:
    return [(turn.number, turn.thread_id) for turn in await stored.turns_of(store, tenant, name, 0, 100)]


@pytest.fixture
async def chats(store: ThreadStore, record: Any) -> list[Any]:
    """Two threads of three turns, a thread with their id of another tenant, and facts without a turn."""
    made = [record(chat, f"r{n}", seconds=n, tenant=None) for chat in ("one", "two") for n in range(3)]
    made += [record("one", "r0", tenant="acme"), record("one", "facts", turn=None, thread={"title": "A title"})]
    await write_turns(store, made)
    return made


async def test_turns_are_added_once_in_their_order_and_taken_out(store: ThreadStore, chats: list[Any]) -> None:
    turn = chats[1]["turn_id"]
    assert await stored.add_turns(store, key("one"), "golden", turn, 5) == 1
    assert await stored.add_turns(store, key("one"), "golden", None, 6) == 2, (
        "without the turn that is there, and facts"
    )
    assert await stored.add_turns(store, key("one"), "golden", None, 7) == 0
    assert await stored.add_turns(store, key("two"), "Bad answers", None, 8) == 3
    assert await stored.datasets_of(store, None) == [
        stored.Dataset("Bad answers", None, 3, 8),
        stored.Dataset("golden", None, 3, 6),
    ]
    turns = await stored.turns_of(store, "", "golden", 0, 2)
    assert [(each.number, each.turn_id, each.added_at) for each in turns] == [(1, turn, 5), (2, chats[0]["turn_id"], 6)]
    assert turns[0].title == "A title"
    assert [each.turn_id for each in await stored.turns_of(store, "", "golden", 2, 2)] == [chats[2]["turn_id"]]
    document = await read_thread(store, key("one")) or {}
    for each, made in zip(document["turns"], chats, strict=False):
        each["meta:turn_id"] = made["turn_id"]
    assert await stored.take_out(store, key("one"), "golden", chats[0]["turn_id"]) == 1
    assert await stored.chosen_in(store, key("one"), "golden", document) == {turn, chats[2]["turn_id"]}
    assert await stored.take_out(store, key("two"), "golden", None) == 0
    assert await stored.take_out(store, key("one"), "golden", None) == 2
    assert await stored.drop_dataset(store, "", "golden") == 0, "a set without turns is none"
    assert await stored.drop_dataset(store, "", "Bad answers") == 3


async def test_a_tenants_set_is_another_one(store: ThreadStore, chats: list[Any]) -> None:
    for owner in (None, "acme"):
        await stored.add_turns(store, key("one", owner), "golden", None, 1)
    assert [(each.tenant, each.turns) for each in await stored.datasets_of(store, None)] == [(None, 3), ("acme", 1)]
    assert [each.turns for each in await stored.datasets_of(store, "acme")] == [1]
    for owner, expected in (("acme", [key("one", "acme")]), ("", [key("one")]), ("globex", [])):
        wanted = ListQuery(tenant=owner, dataset="golden")
        assert [thread async for thread, _ in all_documents(store, wanted)] == expected
    assert len([thread async for thread, _ in all_documents(store, ListQuery(dataset="golden"))]) == 2
    assert (await rows_left(store, "acme"))["dataset_turns"] == 1
    await stored.forget_datasets(store, "acme")
    assert (await rows_left(store, "acme"))["dataset_turns"] == 0
    assert len(await in_set(store)) == 3


@pytest.mark.parametrize("how", ["erased", "expired", "replaced"])
async def test_turns_leave_with_their_thread(
    store: ThreadStore, store_url: str, chats: list[Any], record: Any, tmp_path: Path, how: str
) -> None:
    for chat in ("one", "two"):
        await stored.add_turns(store, key(chat), "golden", None, 1)
    if how == "erased":
        await erase(load({}, home=tmp_path, store=store_url), store, key("one"), "a test")
    elif how == "expired":
        thread = next(each for each in await thread_keys_of(store) if each == key("one"))
        await expire(store, [thread], Retention(DAY_MS), 1_768_903_200_000 + 9 * DAY_MS)
    else:
        await write_turns(store, [record("one", "r0", text="more", events=9)])
    gone = how != "replaced"
    assert len(await in_set(store)) == (3 if gone else 6)
    assert [each.turns for each in await stored.datasets_of(store, None)] == [3 if gone else 6]
    assert await stored.add_turns(store, key("two"), "golden", None, 2) == 0
    if gone:
        with pytest.raises(UnknownTurn):
            await stored.add_turns(store, key("one"), "golden", None, 3)


async def thread_keys_of(store: ThreadStore) -> list[ThreadKey]:
    return [each async for each in thread_keys(store)]


async def test_nothing_is_added_of_a_thread_that_is_being_deleted(store: ThreadStore, chats: list[Any]) -> None:
    await mark_erased(store, key("one"))
    with pytest.raises(UnknownTurn):
        await stored.add_turns(store, key("one"), "golden", chats[0]["turn_id"], 1)
    with pytest.raises(UnknownTurn, match="two's"):
        await stored.add_turns(store, key("two"), "golden", "two's", 1)
    with pytest.raises(UnknownTurn):
        await stored.add_turns(store, key("never stored"), "golden", None, 1)
    assert await stored.datasets_of(store, None) == []
    assert key("never stored") not in await thread_keys_of(store), "no empty thread stays"


async def test_there_are_so_many_sets_and_turns(
    store: ThreadStore, chats: list[Any], record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "DATASET_TURNS", 4)
    monkeypatch.setattr(stored, "DATASETS", 2)
    await stored.add_turns(store, key("one"), "golden", None, 1)
    with pytest.raises(CallerError, match="at most 4 turns, and 'golden' 3"):
        await stored.add_turns(store, key("two"), "golden", None, 1)
    await write_turns(store, [record(f"chat {n}") for n in range(8)])
    at_once = (stored.add_turns(store, key(f"chat {n}"), f"set {n}", None, 1) for n in range(8))
    added = await asyncio.gather(*at_once, return_exceptions=True)
    assert min(map(str, added)) == "1", "a set more"
    assert sum(isinstance(each, CallerError) for each in added) == 7
    assert len(await stored.datasets_of(store, "")) == 2
    assert await stored.add_turns(store, key("one", "acme"), "theirs", None, 1) == 1, "each tenant has its own"
    row = {"id": "x", "tenant": "acme", "dataset": "more", "number": 1, "thread_id": "x", "turn_id": "x", "added_at": 1}
    async with store.writing() as connection:
        await connection.execute(insert(dataset_turns), [row])
        third = asyncio.create_task(stored.add_turns(store, key("one", "acme"), "third", None, 1))
        await asyncio.wait([third], timeout=1)  # it waits for who may be making the last set
    with pytest.raises(CallerError, match="2 data sets already"):
        await third


@pytest.fixture
def turnmill(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    return lambda *args: CliRunner().invoke(cli, ["datasets", *args], standalone_mode=False)


async def test_the_command_lists_adds_and_removes(store: ThreadStore, chats: list[Any], turnmill: Command) -> None:
    async def told(*args: str) -> Any:
        done = await asyncio.to_thread(turnmill, *args)
        return str(done.exception) if done.exception else done.stdout.strip()

    assert await told("add", "golden", key("one").thread_id, "--tenant", "", "--turn", chats[0]["turn_id"]) == (
        "added 1 turn to golden"
    )
    assert await told("add", "golden", "two") == "added 3 turns to golden"
    assert await told("add", "golden", key("one").thread_id, "--tenant", "acme") == "added 1 turn to golden"
    lines = (await told("list")).splitlines()
    assert [line.split("  ")[:2] for line in lines] == [["golden", "4 turns"], ["golden", "1 turn"]]
    assert lines[1].endswith("tenant acme")
    assert "golden  1 turn" in await told("list", "--tenant", "acme")
    assert "at most 100 letters" in await told("add", "a/b", "two")
    assert "no turn 'x'" in await told("add", "golden", "two", "--turn", "x")
    assert "there is no such turn" in await told("remove", "gold")
    assert await told("remove", "golden", "two", "--turn", chats[3]["turn_id"]) == "took 1 turn out of golden"
    assert await told("remove", "golden") == "took 3 turns out of golden"
    assert "golden  1 turn" in await told("list"), "acme's"
