"""A store that is restored from a backup, by a real broker: what was revoked, held, erased or given since is right."""

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select, update

from pipeline.gateway.access.token_table import made_token, new_secret
from pipeline.observability.metrics import Metrics
from pipeline.policies.webhooks import Webhook
from pipeline.settings import Settings
from pipeline.stores.accounts.tokens import Session, add_token, all_tokens, begin_session, end_session, revoke_token
from pipeline.stores.accounts.tokens import rotate_token as rotate
from pipeline.stores.accounts.views import View, add_view, drop_view, views_of
from pipeline.stores.database.schema import notices, turns, webhook_deliveries
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.keeping.holding import held_threads, hold_thread, release_thread
from pipeline.stores.keeping.tenant_erasure import erase_tenant, what_is_left
from pipeline.stores.outbound.deliveries import add_webhook, all_webhooks, drop_webhook, rotate_webhook
from pipeline.stores.threads.datasets import add_turns, datasets_of, take_out
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback, feedback_of
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import sum_up
from pipeline.worker.repair.restoring import newest_facts, restore
from pipeline.worker.sinks.housekeeping import NOTICES_INTERVAL, NOTICES_RETRY_DELAY, Notifying
from tests.integration.stores.conftest import database
from tests.support.commands import turnmill
from tests.support.topic_records import read_all, writing
from tests.support.turn_records import make_record
from topics import json_text
from topics.catalog import FACTS, FEEDBACK
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid
from turnmill.kafka.producer import connected
from turnmill.publish.feedback import made

Write = Callable[..., Awaitable[None]]
STRANGE = "a\0b"


async def nothing(_: Any) -> None:
    """Nothing was erased."""


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


def view(name: str, tenant: str | None = None) -> View:
    return View(name, "ann", tenant, name, "#/threads", shared=True, made_at=1, identity="ann's")


def hook(name: str, tenant: str | None = None) -> Webhook:
    return Webhook(name, f"https://{name}.example", ("turn.stored",), tenant, ("whsec_first",), 1)


@asynccontextmanager
async def backed_up(url: str, postgres_url: Callable[[], str], folder: Path) -> AsyncIterator[str]:
    """-> the address of a copy, as it is now."""
    if url.startswith("sqlite"):
        copy = folder / f"{uuid.uuid4().hex}.db"
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as one, closing(sqlite3.connect(copy)) as other:
            one.backup(other)
        yield f"sqlite:///{copy}"
    else:
        async with database(postgres_url(), urlsplit(url).path.removeprefix("/")) as copied:
            yield copied


def notifying_of(store: ThreadStore, settings: Settings) -> Notifying:
    async def opened() -> ThreadStore:
        return store

    return Notifying(lambda topic: connected(settings, topic.full_name(settings.topic_prefix)), opened, Metrics())


async def waiting_facts(store: ThreadStore) -> list[Any]:
    rows = await store.rows(select(notices.c.record))
    return [row.record for row in rows if row.record["type"] == "store.changed"]


async def sent(store: ThreadStore, settings: Settings) -> None:
    """All facts of a store are on the topic."""

    notifying = notifying_of(store, settings)
    while await notifying._step() != NOTICES_INTERVAL:
        pass
    assert await waiting_facts(store) == []


async def state(store: ThreadStore) -> dict[str, Any]:
    """What a restore is about, as readers see it."""
    chats = [key(f"chat{n}") for n in range(6)] + [key(f"chat{n}", of) for n in range(3) for of in ("acme", STRANGE)]
    async with store.reading() as connection:
        stored = await connection.scalar(select(func.count()).select_from(turns))
        waiting = await connection.scalar(select(func.count()).select_from(webhook_deliveries))
    return {
        "tokens": [(token.name, token.digest, token.old, token.tenant) for token in await all_tokens(store)],
        "views": [one for tenant in (None, "acme") for one in await views_of(store, "ann", tenant)],
        "datasets": await datasets_of(store, None),
        "webhooks": [(one.id, one.secrets, one.tenant) for one in await all_webhooks(store, 5)],
        "held": await held_threads(store),
        "erased": await erased_among(store, chats),
        "feedback": {k: [each["value"] for each in v] for k, v in (await feedback_of(store, chats)).items() if v},
        "turns": stored,
        "deliveries": waiting,
    }


@pytest.fixture
def said(applied_settings: Settings) -> Callable[..., Awaitable[None]]:
    """Gives feedback: on the topic, and into a store, as the feedback role does."""

    async def give(store: ThreadStore, chat: str, id_: str, value: Any, tenant: str | None = None) -> None:
        judgement = made(chat, tenant, {"id": id_, "name": "useful", "value": value})
        async with writing(applied_settings, FEEDBACK) as write:
            await write(judgement["thread_id"].encode(), json_text.encoded(judgement), 0)
        received = [
            ReceivedFeedback(json.loads(one.value), one.timestamp, one.offset)
            for one in await read_all(applied_settings, FEEDBACK)
        ]
        await add_feedback(store, received)

    return give


async def test_what_happened_since_the_backup_is_right_after_a_restore(
    store_url: str,
    applied_settings: Settings,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    said: Callable[..., Awaitable[None]],
) -> None:
    settings = applied_settings.model_copy(update={"store": store_url, "partitions": 2})
    tokens = {name: made_token(new_secret(), name, ["read"], tenant, by="ann") for name, tenant in TOKENS.items()}
    session = made_token(new_secret(), "bob", ["read"], None, by="bob")
    object.__setattr__(session, "session", Session("okta", "bob", "1", "reader", 10**12))
    async with await ThreadStore.open(store_url, migrate=True) as store:
        for tenant in (None, "acme", STRANGE):
            await write_turns(store, [make_record(f"chat{n}", tenant=tenant) for n in range(4)])
        for name in ("stays", "revoked", "rotated", "acme's"):
            await add_token(store, tokens[name])
        await begin_session(store, session, "the provider's token", now_ms())
        await hold_thread(store, key("chat1"))
        for name, tenant in (("kept", None), ("dropped", None), ("theirs", "acme")):
            await add_view(store, view(name, tenant), 10)
            await add_webhook(store, hook(name, tenant))
        for chat in ("chat0", "chat1", "chat2"):
            await add_turns(store, key(chat), "golden", None, 1)
        await add_turns(store, key("chat1", "acme"), "theirs", None, 1)
        await said(store, "chat0", "changed", 1)
        await said(store, "chat0", "withdrawn", 1)
        await said(store, "never stored", "theirs", 1, "acme")
        await sent(store, settings)

    postgres_url = partial(request.getfixturevalue, "postgres_url")
    async with backed_up(store_url, postgres_url, tmp_path) as backup:
        async with await ThreadStore.open(store_url) as store:
            await revoke_token(store, tokens["revoked"].id)
            await rotate(store, tokens["rotated"].id, "d" * 64, now_ms(), now_ms() + 1)
            await end_session(store, session.digest)
            await erase_tenant(settings, store, "acme", "ann", lambda _: None)
            await erase_tenant(settings, store, STRANGE, "ann", lambda _: None)
            for name in ("made since", "acme's since"):
                await add_token(store, tokens[name])
            await add_view(store, view("acme's since", "acme"), 10)
            await release_thread(store, key("chat1"))
            await hold_thread(store, key("chat0"))
            await erase(settings, store, key("chat2"), "ann")
            await erase(settings, store, key("chat5"), "ann")  # never stored
            await take_out(store, key("chat1"), "golden", None)
            await add_turns(store, key("chat3"), "golden", None, 2)
            await drop_view(store, "dropped")
            await drop_webhook(store, "dropped")
            await rotate_webhook(store, "kept", "whsec_second", 2, 3)
            await add_webhook(store, hook("since"))
            await said(store, "chat0", "changed", 0)
            await said(store, "chat0", "withdrawn", None)
            await said(store, "chat1", "since", 1)
            await said(store, "chat1", "acme's since", 1, "acme")
            before = await state(store)
            assert len(await waiting_facts(store)) > 10
            await sent(store, settings)
        assert before["turns"] == 3
        assert [(one.name, one.turns) for one in before["datasets"]] == [("golden", 2)]
        assert {key("chat2"), key("chat5"), key("chat2", "acme"), key("chat0", STRANGE)} <= before["erased"]

        restored = settings.model_copy(update={"store": backup})
        async with await ThreadStore.open(backup) as store:
            assert await state(store) != before
        done = await turnmill(restored, "doctor", "--ledger", "--json")
        (lacking,) = [one for one in json.loads(done.stdout) if "older than its topics" in one["seen"]]
        assert (done.returncode, lacking["level"]) == (1, "error")
        assert "turnmill store restore" in lacking["advice"]

        done = await turnmill(restored, "store", "restore")
        assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
        assert "tokens: 6\n" in done.stdout
        done = await turnmill(restored, "doctor", "--ledger", "--json")
        assert "older than its topics" not in done.stdout
        async with await ThreadStore.open(backup) as store:
            assert await state(store) == before
            while await sum_up(store):
                pass
            left = await what_is_left(restored, store, STRANGE)
            assert {name: count for name, count in left.found.items() if count} == {}
            # What happens in the restored store is newer than all that the topic knows.
            assert min([one["data"]["n"] for one in await waiting_facts(store)]) > max(
                [json.loads(one.value)["data"]["n"] for one in await read_all(settings, FACTS)]
            )
            await revoke_token(store, tokens["made since"].id)
            assert (await turnmill(restored, "store", "restore")).returncode == 0
            assert "made since" not in [token.name for token in await all_tokens(store)]


TOKENS = {"stays": None, "revoked": "acme2", "rotated": None, "acme's": "acme", "made since": None} | {
    "acme's since": "acme"
}


async def test_facts_wait_for_the_broker_and_may_come_twice(
    store_url: str, applied_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = applied_settings.model_copy(update={"store": store_url})
    monkeypatch.setattr("turnmill.kafka.producer.CONNECT_TIMEOUT", 1.0)
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await hold_thread(store, key("chat"))
        away = settings.model_copy(update={"brokers": "127.0.0.1:1"})
        assert await notifying_of(store, away)._step() == NOTICES_RETRY_DELAY
        (held,) = await waiting_facts(store)
        async with store.writing() as connection:
            await connection.execute(update(notices).values(due=0))  # a minute later, the claim is over
        await sent(store, settings)
        await release_thread(store, key("chat"))
        await sent(store, settings)
        async with writing(settings, FACTS) as write:  # a worker that was paused sends it again, and someone rubbish
            await write(b"facts", json_text.encoded(held), 0)
            await write(b"facts", b"not JSON", 0)
            await write(
                b"facts", json_text.encoded({"v": 1, "id": "x", "type": "store.changed", "at": 0, "data": {}}), 0
            )
            other = {"n": 99, "table": "threads", "key": "x", "row": {}}
            await write(b"facts", json_text.encoded(held | {"data": other}), 0)
        told = {one["table"]: one for one in await newest_facts(settings, store)}
        assert told["holds"]["row"] is None
        await restore(settings, store, nothing, nothing)
        assert await held_threads(store) == set()
