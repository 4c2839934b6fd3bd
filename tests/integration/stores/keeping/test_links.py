"""Links to threads: with the thread and its maker they go, and none is left of a thread that is being deleted."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.gateway.access.token_table import made_token, new_secret
from pipeline.policies.retention import DAY_MS, Retention
from pipeline.settings import load
from pipeline.stores.accounts import tokens as stored
from pipeline.stores.accounts.tokens import Token, add_token, all_tokens, revoke_token
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping import links
from pipeline.stores.keeping.erasure import delete_thread, erase, mark_erased
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.keeping.links import add_link, end_links_of
from pipeline.stores.keeping.tenant_erasure import rows_left
from pipeline.stores.turns import write_turns
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


def link(to: ThreadKey, maker: str | None = None, until: int = 60_000) -> Token:
    made = made_token(new_secret(), "link", (), to.tenant, by="ann", expires_at=now_ms() + until)
    return replace(made, thread=to.text, maker=maker)


async def ids(store: ThreadStore) -> set[str]:
    return {token.id for token in await all_tokens(store)}


@pytest.fixture(autouse=True)
async def chats(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record("one"), record("two"), record("one", tenant="acme")])


@pytest.mark.parametrize("how", ["erased", "deleted", "expired", "ended"])
async def test_a_link_goes_with_its_thread(store: ThreadStore, store_url: str, tmp_path: Path, how: str) -> None:
    made = [link(key("one")), link(key("one")), link(key("two")), link(key("one", "acme"))]
    for each in made:
        assert each.thread is not None
        await add_link(store, ThreadKey.parse(each.thread), each)
    stored_links = [token for token in await all_tokens(store) if token.thread is not None]
    assert {(token.thread, token.scopes) for token in stored_links} == {(each.thread, ()) for each in made}
    if how == "erased":
        await erase(load({}, home=tmp_path, store=store_url), store, key("one"), "a test")
    elif how == "deleted":
        await delete_thread(store, key("one"))
    elif how == "expired":
        await expire(store, [key("one")], Retention(DAY_MS), 1_768_903_200_000 + 9 * DAY_MS)
    else:
        assert await end_links_of(store, key("one")) == 2
        assert await end_links_of(store, key("one")) == 0
    assert await ids(store) == {made[2].id, made[3].id}
    assert (await rows_left(store, "acme"))["tokens"] == 1


async def test_of_a_thread_that_is_being_deleted_there_is_none(store: ThreadStore) -> None:
    await mark_erased(store, key("one"))
    for gone in (key("one"), key("never stored")):
        with pytest.raises(CallerError, match="it was deleted"):
            await add_link(store, gone, link(gone))
    strange = ThreadKey(key("one").thread_id, "x" * 900)
    with pytest.raises(CallerError, match="can't be shared"):
        await add_link(store, strange, link(strange))
    assert await ids(store) == set()
    assert key("never stored") not in [each async for each in thread_keys(store)], "no empty thread stays"


async def test_links_and_a_deletion_at_once_leave_nothing(store: ThreadStore, store_url: str, tmp_path: Path) -> None:
    settings = load({}, home=tmp_path, store=store_url)
    made = [add_link(store, key("one"), link(key("one"))) for _ in range(8)]
    done = await asyncio.gather(
        *made[:4], erase(settings, store, key("one"), "a test"), *made[4:], return_exceptions=True
    )
    assert all(each is None or isinstance(each, CallerError) for each in (*done[:4], *done[5:]))
    assert await ids(store) == set()


async def test_who_is_revoked_has_no_links(store: ThreadStore) -> None:
    maker, other = (made_token(new_secret(), name, ["read"], None, by="ann") for name in ("maker", "other"))
    for token in (maker, other):
        await add_token(store, token)
    links_of = [link(key("one"), maker.id), link(key("one"), other.id), link(key("one"), "settings/x")]
    for each in links_of:
        await add_link(store, key("one"), each)
    assert await stored.rotate_token(store, links_of[0].id, "d" * 64, 1, 2) is None, "a link keeps its secret"
    assert await revoke_token(store, maker.id)
    assert await ids(store) == {other.id, links_of[1].id, links_of[2].id}
    with pytest.raises(CallerError, match="revoked"):
        await add_link(store, key("one"), link(key("one"), maker.id))
    late = [add_link(store, key("one"), link(key("one"), other.id)) for _ in range(4)]
    await asyncio.gather(*late[:2], revoke_token(store, other.id), *late[2:], return_exceptions=True)
    assert await ids(store) == {links_of[2].id}


async def test_there_are_so_many_and_expired_ones_make_room(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "LINKS", 2)
    await add_link(store, key("one"), link(key("one"), until=-1))
    many = [add_link(store, key(chat), link(key(chat))) for chat in ("one", "two", "one", "two")]
    done = await asyncio.gather(*many, return_exceptions=True)
    assert sorted(str(each)[:17] for each in done if each) == ["there are 2 links"] * 2
    assert len(await ids(store)) == 2
    await add_link(store, key("one", "acme"), link(key("one", "acme")))
    plain = made_token(new_secret(), "plain", ["read"], None, by="ann")
    assert await add_token(store, plain, 1), "links are no tokens of programs"
