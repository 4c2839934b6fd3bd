"""Entries of the audit log in the store, on both databases: pages, filters, age, and an erased tenant."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.observability.audit import Entry, user_name
from pipeline.settings import LAKE, load
from pipeline.stores.accounts.audit import AuditQuery, add_audit, audit_between, audit_page, expire_audit, forget_audit
from pipeline.stores.archive.audit import AuditArchive
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.tenant_erasure import AUDIT as ARCHIVED
from pipeline.stores.keeping.tenant_erasure import erase_tenant, rows_left, what_is_left
from pipeline.stores.outbound.notices import due_notices, forget_notices
from pipeline.stores.turns import write_turns
from pipeline.worker.sinks.housekeeping import AUDIT_INTERVAL, AuditKeeping
from turnmill.errors import CallerError


def entry(at: int, action: str = "token.make", who: str = "ann", tenant: str | None = "acme") -> Entry:
    return Entry(at, who, "tk_1", "10.0.0.1", action, f"subject {at}", tenant, "done")


ALL = [
    entry(1),
    entry(2, "token.revoke"),
    entry(2, who="bob", tenant=None),
    entry(3, "thread.erase"),
    entry(4, tenant=""),
]


@pytest.fixture
async def kept(store: ThreadStore) -> ThreadStore:
    await add_audit(store, ALL, notify=True)
    return store


async def actions(store: ThreadStore, wanted: AuditQuery) -> list[int]:
    found, more = await audit_page(store, wanted, 100, None)
    assert more is None
    return [ALL.index(one) for one in found]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AuditQuery(), [4, 3, 2, 1, 0]),
        (AuditQuery(tenant="acme"), [3, 1, 0]),
        (AuditQuery(tenant=""), [4]),
        (AuditQuery(who="bob"), [2]),
        (AuditQuery(what="token"), [4, 2, 1, 0]),
        (AuditQuery(what="token.revoke"), [1]),
        (AuditQuery(what="tok_n"), []),
        (AuditQuery(since=2, until=4), [3, 2, 1]),
    ],
    ids=str,
)
async def test_filters(kept: ThreadStore, wanted: AuditQuery, expected: list[int]) -> None:
    assert await actions(kept, wanted) == expected


async def test_pages(kept: ThreadStore) -> None:
    found: list[Entry] = []
    cursor: str | None = None
    for _ in range(3):
        some, cursor = await audit_page(kept, AuditQuery(), 2, cursor)
        found += some
    assert cursor is None
    assert found == ALL[::-1]
    with pytest.raises(CallerError):
        await audit_page(kept, AuditQuery(), 2, "x")


async def test_old_ones_go_and_of_an_erased_tenant_stays_that_it_was_erased(kept: ThreadStore) -> None:
    assert await expire_audit(kept, 2) == 1
    assert await expire_audit(kept, 2) == 0
    assert (await rows_left(kept, "acme"))["audit"] == 1
    assert (await rows_left(kept, "acme"))["notices"] == 2
    await forget_audit(kept, "acme")
    await forget_notices(kept, "acme")
    assert await actions(kept, AuditQuery()) == [4, 3, 2]
    left = await rows_left(kept, "acme")
    assert (left["audit"], left["notices"]) == (0, 0)
    told = sorted(one["data"]["subject"] for one in await due_notices(kept, 2**50))
    assert told == ["subject 2", "subject 3", "subject 4"]


def test_commands_are_recorded(store_url: str, tmp_path: Path, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await write_turns(store, [record("one", tenant="acme"), record("two", tenant="globex")])

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, args, standalone_mode=False)

    asyncio.run(fill())
    one = record("one", tenant="acme")["thread_id"]
    assert run("threads", "hold", one).exception is None
    assert run("threads", "hold", "--release", one).exception is None
    assert run("export", one).exception is None
    assert run("tokens", "make", "ci", "--tenant", "globex").exception is None
    lines = [json.loads(line) for line in run("audit", "--json").stdout.splitlines()]
    assert {(line["who"], line["address"]) for line in lines} == {(user_name(), "command line")}
    told = [(line["action"], line["subject"], line["tenant"]) for line in lines]
    assert told.pop(0)[::2] == ("token.make", "globex")
    assert told == [(f"thread.{done}", one, "acme") for done in ("export", "release", "hold")]
    assert run("tenants", "erase", "--yes", "acme").exit_code == 0
    assert run("tenants", "erase", "--yes", "globex").exit_code == 0
    lines = run("audit").stdout.splitlines()
    assert [line.split("  ")[2:] for line in lines] == [
        ["tenant.erase", tenant, f"tenant '{tenant}'"] for tenant in ("globex", "acme")
    ]
    monkeypatch.setenv("TURNMILL_AUDIT_RETENTION", "0")
    assert run("threads", "hold").exception is None
    assert run("tenants", "erase", "--yes", "acme").exit_code == 0
    assert len(run("audit").stdout.splitlines()) == 2


HOUR = 3_600_000
LATE = 100 * 24 * HOUR  # the retention, of 90 days, is over for what is of the first hours


def lines(folder: Path) -> dict[str, list[str]]:
    """File -> the subjects of its entries."""
    files = sorted((folder / "audit").rglob("*.jsonl"))
    return {
        f"{file.parent.name}/{file.name}": [json.loads(line)["subject"] for line in file.read_text().splitlines()]
        for file in files
    }


@pytest.mark.parametrize("kind", ["", LAKE])
async def test_the_archive_has_a_copy_of_each_hour(
    store: ThreadStore, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "with space"
    settings = load({}, home=tmp_path, store=store_url, archive=kind + folder.as_uri())
    clock = LATE

    async def opened() -> ThreadStore:
        return store

    async def step(keeping: AuditKeeping) -> None:
        while await keeping._step() != AUDIT_INTERVAL:
            pass

    first, second = LATE - 3 * HOUR, LATE - HOUR
    await add_audit(store, [entry(first), entry(first + 1, tenant=None), entry(second)], notify=False)

    async def agreed() -> int:
        return clock

    keeping = AuditKeeping(AuditArchive.of(settings), settings.audit_retention, opened, agreed)
    await step(keeping)
    expected = {
        "day=1970-04-10/1970-04-10T21.jsonl": [f"subject {first}", f"subject {first + 1}"],
        "day=1970-04-10/1970-04-10T23.jsonl": [f"subject {second}"],
    }
    assert lines(folder) == expected
    await add_audit(store, [entry(second + 5), entry(LATE, "thread.erase")], notify=False)  # one came late
    again = AuditKeeping(AuditArchive.of(settings), settings.audit_retention, opened, agreed)
    for one in (keeping, again):  # one that was started anew writes the same
        await step(one)
        assert lines(folder) == expected | {
            "day=1970-04-10/1970-04-10T23.jsonl": [f"subject {second}", f"subject {second + 5}"],
            "day=1970-04-11/1970-04-11T00.jsonl": [f"subject {LATE}"],
        }
    assert (await what_is_left(settings, store, "acme")).found[ARCHIVED] == 2
    await erase_tenant(settings, store, "acme", "a test", lambda _: None)
    assert (await what_is_left(settings, store, "acme")).nothing
    remaining = {
        "day=1970-04-10/1970-04-10T21.jsonl": [f"subject {first + 1}"],
        "day=1970-04-11/1970-04-11T00.jsonl": [f"subject {LATE}"],
    }
    assert lines(folder) == remaining
    clock += 90 * 24 * HOUR - HOUR
    await step(keeping)
    assert lines(folder) == {"day=1970-04-11/1970-04-11T00.jsonl": [f"subject {LATE}"]}
    clock += 2 * HOUR
    await step(keeping)
    assert lines(folder) == {}


async def test_an_erasure_while_an_hour_is_written_wins(store: ThreadStore, tmp_path: Path) -> None:
    archive = AuditArchive(tmp_path.as_uri())
    await add_audit(store, [entry(1), entry(2, tenant="globex")], notify=False)

    async def entries(since: int, until: int) -> list[Entry]:
        found = await audit_between(store, since, until)
        await forget_audit(store, "acme")  # behind each reading
        await archive.forget("acme")
        return found

    await archive.write(0, entries)
    assert lines(tmp_path) == {"day=1970-01-01/1970-01-01T00.jsonl": ["subject 2"]}
