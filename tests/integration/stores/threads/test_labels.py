"""Labels of runs: threads are listed by them, usage is summed under few of them, and a user's threads are erased."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from pipeline.policies.retention import DAY_MS, Retention
from pipeline.settings import Settings, load
from pipeline.stores.database.schema import labels, thread_labels, usage_names, usage_sums, usage_tags
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase, erase_user
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.keeping.holding import hold_thread
from pipeline.stores.search.hits import SearchQuery, find_turns
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads import labels as stored_labels
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.summing import sum_up
from topics.thread_key import ThreadKey
from topics.turn_record import LABELS
from turnmill.identity import thread_uuid

ADA = {"user": "ada", "tags": ["beta", "eu"], "environment": "production"}
FAR = 4_000_000_000_000  # epoch ms at which all has expired


def labelled(made: Any, **known: Any) -> Any:
    made["thread"] |= {LABELS: known}
    return made


async def chats(store: ThreadStore, **wanted: Any) -> list[str | None]:
    page = await list_threads(store, wanted=ListQuery(**wanted))
    return sorted(line.external_id or "" for line in page.threads)


async def counts(store: ThreadStore) -> dict[str, int]:
    tables = (labels, thread_labels, usage_tags)
    async with store.reading() as connection:
        return {table.name: await connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables}


async def test_threads_are_listed_by_the_labels_of_any_of_their_runs(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store,
        [
            labelled(record("one", "r1"), **ADA),
            labelled(record("one", "r2", seconds=5), user="bob", branch="main"),
            labelled(record("two", "r1", tenant="acme"), **ADA),
            record("three", "r1"),
        ],
    )
    assert await chats(store, user="ada") == ["one", "two"]
    assert await chats(store, user="ada", tenant="acme") == ["two"]
    assert await chats(store, user="bob", tag="eu") == ["one"]
    assert await chats(store, environment="production", branch="main", user="ada") == ["one"]
    assert await chats(store, project="shop") == []
    assert len(await chats(store)) == 3
    [line] = (await list_threads(store, wanted=ListQuery(user="bob"))).threads
    assert line.labels == {
        "user": ["ada", "bob"],
        "tag": ["beta", "eu"],
        "environment": ["production"],
        "branch": ["main"],
    }


async def test_searches_take_labels(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [labelled(record("one", text="a refund"), **ADA), record("two", text="a refund")])
    found = await find_turns(store, SearchQuery("refund", labels=(("user", "ada"), ("tag", "eu"))))
    assert [hit.thread_id for hit in found.results] == [thread_uuid("one")[0]]
    assert (await find_turns(store, SearchQuery("refund", labels=(("user", "bob"),)))).results == ()


async def test_a_turn_that_is_replaced_leaves_none_of_its_labels(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store, [labelled(record("one", status="interrupted"), **ADA), labelled(record("two"), user="ada")]
    )
    await write_turns(store, [labelled(record("one", revision=1, events=4), user="bob")])
    assert (await chats(store, user="ada"), await chats(store, user="bob"), await chats(store, tag="eu")) == (
        ["two"],
        ["one"],
        [],
    )
    while await sum_up(store):
        pass
    assert await counts(store) == {"labels": 2, "thread_labels": 2, "usage_tags": 0}


async def test_a_store_without_labels_has_no_row_for_them(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record("one"), record("two")])
    assert await counts(store) == {"labels": 0, "thread_labels": 0, "usage_tags": 0}


@pytest.mark.parametrize("foreign", ["text", 7, {"user": {"no": "text"}, "tags": [1, None]}, {"tags": "a,b"}, None])
async def test_any_json_is_taken_where_labels_should_be(store: ThreadStore, record: Any, foreign: Any) -> None:
    made = record("one")
    made["thread"] |= {LABELS: foreign}
    assert (await write_turns(store, [made])).inserted == 1


async def test_beyond_a_number_of_labels_usage_is_other_and_lists_know_each(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_labels, "COUNTED", 3)
    for number in range(5):
        await write_turns(store, [labelled(record(f"chat{number}"), user=f"u{number}", tags=[f"t{number}", "all"])])
    await write_turns(store, [labelled(record("more", tenant="acme"), user="u4")])  # a tenant has its own number
    report = await usage_report(store, UsageQuery(("user", "tenant")))
    assert {(row.group["user"], row.group["tenant"]): row.figures.turns for row in report.rows} == {
        ("u0", None): 1,
        ("u1", None): 1,
        ("u2", None): 1,
        ("other", None): 2,
        ("u4", "acme"): 1,
    }
    tags = await usage_report(store, UsageQuery(("tag",)))
    assert {row.group["tag"]: row.figures.turns for row in tags.rows} == {
        "t0": 1,
        "t1": 1,
        "all": 5,
        "other": 3,
        None: 1,
    }
    assert tags.total.turns == 6
    assert await chats(store, user="u4", tenant="") == ["chat4"]


@pytest.fixture
def local_settings(store_url: str, tmp_path: Path) -> Settings:
    return load({}, home=tmp_path, store=store_url)


async def test_a_users_threads_are_erased_and_nobody_elses(
    store: ThreadStore, record: Any, local_settings: Settings
) -> None:
    await write_turns(
        store,
        [
            labelled(record("mine"), **ADA),
            labelled(record("shared", "r1"), user="ada"),
            labelled(record("shared", "r2", seconds=3), user="bob"),
            labelled(record("held"), user="ada"),
            labelled(record("acmes", tenant="acme"), user="ada"),
            labelled(record("bobs"), user="bob"),
        ],
    )
    held = ThreadKey.of(thread_uuid("held")[0], None)
    await hold_thread(store, held)
    assert await erase_user(local_settings, store, "ada", "", "a test") == (2, (held,))
    assert await chats(store, user="ada") == ["acmes", "held"]
    assert await chats(store) == ["acmes", "bobs", "held"]
    assert (await write_turns(store, [labelled(record("mine"), **ADA)])).erased  # a replay brings nothing back


async def test_what_has_expired_of_a_user_is_taken_out_of_the_sums(
    store: ThreadStore, record: Any, local_settings: Settings
) -> None:
    await write_turns(store, [labelled(record("old"), **ADA), labelled(record("other"), user="bob")])
    while await sum_up(store):
        pass
    keys = [ThreadKey.of(thread_uuid(chat)[0], None) for chat in ("old", "other")]
    assert len(await expire(store, keys, Retention(DAY_MS), FAR)) == 2
    while await sum_up(store):
        pass
    assert (await usage_report(store, UsageQuery(where={"user": ("ada",)}))).total.turns == 1
    assert await erase_user(local_settings, store, "ada", "", "a test") == (0, ())
    users = select(usage_names.c.user).join(usage_sums, usage_sums.c.names == usage_names.c.id).distinct()
    assert [row.user for row in await store.rows(users)] == ["bob"]
    assert [row.user for row in await store.rows(select(usage_names.c.user))] == ["bob"]


async def test_labels_go_with_their_last_thread(store: ThreadStore, record: Any, local_settings: Settings) -> None:
    await write_turns(store, [labelled(record("one"), **ADA), labelled(record("two"), user="ada")])
    for chat, left in (("one", 1), ("two", 0)):
        await erase(local_settings, store, ThreadKey.of(thread_uuid(chat)[0], None), "a test")
        assert (await counts(store))["labels"] == left
