"""The same id of two tenants is two threads."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.settings import load
from pipeline.stores.content.store import ContentStore, folder
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, erase, mark_erased
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads import reading as stored_reading
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import (
    erased_among,
    find_threads,
    read_thread,
    spawned_threads,
    stored_runs,
    thread_summary,
)
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.rows import turn_usage
from pipeline.turns.canonical import turn_hash
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

ID = thread_uuid("order-4711", "acme")[0]
ACME, EVIL, NOBODY = ThreadKey(ID, "acme"), ThreadKey(ID, "evil"), ThreadKey(ID)
ORDER = {"external_id": "order-4711"}


@pytest.fixture
def mixed(record: Any) -> list[Any]:
    """Turns of one id: two of acme, one of evil, who dates it to the future, one without a tenant."""
    return [
        record(ID, "r1", "user", role="user", text="acme's prompt", seconds=1, tenant="acme", thread=ORDER),
        record(ID, "r1", seconds=2, tenant="acme", tokens=100, thread=ORDER),
        record(ID, "evil", seconds=9999, tenant="evil", tokens=7, agent_id="mallory", text="evil's"),
        record(ID, "none", seconds=5, text="nobody's", tokens=1),
    ]


def runs_of(document: Any) -> list[str]:
    """What was said in each turn."""
    said = [turn if "parts" in turn else turn["messages"][0] for turn in (document or {})["turns"]]
    return [one["parts"][0]["content"] for one in said]


async def what_each_sees(store: ThreadStore) -> None:
    acme, evil, nobody = [await read_thread(store, key) or {} for key in (ACME, EVIL, NOBODY)]
    assert runs_of(acme) == ["acme's prompt", "hello"]
    assert (runs_of(evil), runs_of(nobody)) == (["evil's"], ["nobody's"])
    assert set(acme["agents"]) == {"a1"}
    assert set(evil["agents"]) == {"mallory"}
    assert "metadata" not in evil
    assert [len((await turn_usage(store, key))[0]) for key in (ACME, EVIL, NOBODY)] == [1, 1, 1]
    assert (
        await find_threads(store, "order-4711", "acme")
        == await stored_reading.find_threads(store, ID, "acme")
        == (ACME,)
    )
    assert await find_threads(store, "order-4711", "evil") == ()
    assert await find_threads(store, ID, "evil") == (EVIL,)
    assert await find_threads(store, ID, "") == (NOBODY,)
    assert set(await find_threads(store, ID)) == {ACME, EVIL, NOBODY}
    assert sorted([key.text async for key in thread_keys(store)]) == [NOBODY.text, ACME.text, EVIL.text]
    lines = [await thread_summary(store, key) for key in (ACME, EVIL, NOBODY)]
    assert [(line.title, line.turns, line.tokens, line.agents) for line in lines if line] == [
        ("acme's prompt", 2, 101, ("A1",)),
        (None, 1, 8, ("Mallory",)),
        (None, 1, 2, ("A1",)),
    ]
    for tenant, tokens in (("acme", 101), ("evil", 8), ("", 2)):
        where = {"tenant": (tenant,), "thread": (ID,)}
        (row,) = (await usage_report(store, UsageQuery(("thread",), where=where))).rows
        assert (row.group["thread"], row.figures.total_tokens) == (ID, tokens)
    assert {run async for run in stored_runs(store)} == {("acme", ID, "r1"), ("evil", ID, "evil"), (None, ID, "none")}


async def test_one_id_of_three_is_three_threads(store: ThreadStore, mixed: list[Any]) -> None:
    await write_turns(store, mixed)
    await what_each_sees(store)
    for tenant, title in (("acme", "acme's prompt"), ("evil", None), ("", None)):
        (line,) = (await list_threads(store, wanted=ListQuery(tenant=tenant))).threads
        assert (line.thread_id, line.tenant or "", line.title) == (ID, tenant, title)
    assert len((await list_threads(store)).threads) == 3
    assert not (await list_threads(store, wanted=ListQuery(tenant="evil", search="acme"))).threads


async def test_links_stay_within_a_tenant(store: ThreadStore, record: Any) -> None:
    link, other = {"thread_id": ID, "relation": "spawned_from"}, thread_uuid("other")[0]
    child = {tenant: ThreadKey(thread_uuid(f"child of {tenant}")[0], tenant) for tenant in ("acme", "evil")}
    made = [record(ID, tenant, tenant=tenant) for tenant in child]
    made += [record(key.thread_id, "r", tenant=tenant, links=[link]) for tenant, key in child.items()]
    forged = [{**link, "from": child["acme"].thread_id, "thread_id": id_} for id_ in (ID, other)]
    made += [record("other", "x", tenant="evil", links=forged)]
    await write_turns(store, made)
    assert [line.key for line in await spawned_threads(store, ACME)] == [child["acme"]]
    assert [line.key for line in await spawned_threads(store, EVIL)] == [child["evil"]]
    assert (
        await spawned_threads(store, NOBODY)
        == await stored_reading.spawned_threads(store, ThreadKey(other, "evil"))
        == ()
    )
    assert (await read_thread(store, child["acme"]) or {})["relationships"] == {"links": [link]}


async def test_who_deletes_deletes_its_own(store: ThreadStore, mixed: list[Any], tmp_path: Path) -> None:
    settings = load({}, home=tmp_path, store=store.url, content=(tmp_path / "content").as_uri())
    await write_turns(store, mixed)
    assert (await erase(settings, store, EVIL, "a test")).stored
    assert await erased_among(store, [ACME, EVIL, NOBODY]) == {EVIL}
    assert await read_thread(store, EVIL) is None
    assert runs_of(await read_thread(store, ACME)) == ["acme's prompt", "hello"]
    assert (await write_turns(store, mixed)).erased == (EVIL,)
    assert await read_thread(store, EVIL) is None
    assert runs_of(await read_thread(store, NOBODY)) == ["nobody's"]


async def test_a_mark_without_a_tenant_is_for_no_other(store: ThreadStore, mixed: list[Any]) -> None:
    await mark_erased(store, NOBODY)
    assert await erased_among(store, [ACME, EVIL, NOBODY]) == {NOBODY}
    assert (await write_turns(store, mixed)).erased == (NOBODY,)


async def test_nobody_gets_anothers_object_by_guessing(store: ThreadStore, record: Any, tmp_path: Path) -> None:
    """References to objects of a tenant and of nobody, as they are after an upload, and as producers may write them."""
    settings = load({}, home=tmp_path, store=store.url, content=(tmp_path / "content").as_uri())
    for elsewhere in (True, False):
        contents = ContentStore.of(settings, elsewhere=elsewhere)
        new = await contents.put(ACME, b"acme's secret", "text/plain")
        bare = await contents.put(NOBODY, b"nobody's secret", "text/plain")
        assert folder(ACME) in new["uri"]
        assert folder(ACME) not in bare["uri"]
        uris = [new["uri"], bare["uri"], new["uri"].replace(folder(ACME), f"x/../{folder(ACME)}/.")]
        uris += [uri[:-1] + ("0" if uri[-1] != "0" else "1") for uri in uris]  # where nothing is
        answers = set()
        for uri in uris:
            ref = {"uri": uri, "hash": uri[-64:]}
            forged = record(ID, tenant="evil")
            forged["turn"]["messages"][0]["parts"].append(
                {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "content_ref": ref}
            )
            forged["hash"] = turn_hash(forged["turn"])
            await delete_thread(store, EVIL)
            await write_turns(store, [forged])
            with pytest.raises(Exception, match="not in the content store") as caught:
                await contents.inlined(EVIL, await read_thread(store, EVIL) or {})
            answers.add(str(caught.value).replace(uri, "URI"))
        assert len(answers) == 1, "they don't tell whether there is one"


class Commands:
    """`turnmill` on a store."""

    def __init__(self, store_url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store_url = store_url
        monkeypatch.setenv("TURNMILL_STORE", store_url)
        monkeypatch.setenv("TURNMILL_HOME", str(home))

    def fill(self, records: Sequence[Any]) -> None:
        """Store records."""

        async def write() -> None:
            async with await ThreadStore.open(self.store_url, migrate=True) as store:
                await write_turns(store, records)

        asyncio.run(write())

    def run(self, *args: str) -> Any:
        return CliRunner().invoke(cli, args, standalone_mode=False)


@pytest.fixture
def commands(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(store_url, tmp_path, monkeypatch)


def test_the_command_line_asks_whose(commands: Commands, record: Any) -> None:
    commands.fill([record(ID, "r1", tenant="acme"), record(ID, "r2", tenant="evil")])
    run = commands.run
    for command in (("threads", "delete", "--yes"), ("threads", "show", "--json"), ("export",)):
        refused = run(*command, ID)
        assert "'acme', 'evil'" in str(refused.exception), command
        assert "--tenant" in str(refused.exception)
    assert json.loads(run("threads", "show", "--json", ID, "--tenant", "acme").output)["thread_id"] == ID
    assert len(run("export").output.splitlines()) == 2
    assert len(run("export", "--tenant", "evil").output.splitlines()) == 1
    assert run("threads", "delete", "--yes", "--tenant", "evil", ID).stdout == f"deleted {ID}\n"
    assert json.loads(run("threads", "show", "--json", ID).output)["thread_id"] == ID
