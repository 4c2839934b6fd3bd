"""A store of the release before the newer tables, with data in it, on its way to this one: step by step, on both
databases, while a worker of that release goes on to write.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

from pipeline.errors import StoreError
from pipeline.retention import Retention
from pipeline.stores import migrate
from pipeline.stores.search import SearchQuery
from pipeline.stores.sql import ThreadStore
from pipeline.stores.usage_report import UsageQuery
from pipeline.stores.waiting import WaitingWanted
from tests.chaos.versions import NoHistory, unpacked
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

OLDER: Final = "03ca357"  # the last one before there were sums of usage
FIRST: Final = "0002"  # its revision of the schema
LATER: Final = [revision for revision in migrate.REVISIONS if revision > FIRST]
FAR: Final = 4_000_000_000_000  # epoch ms at which all has expired
CALL: Final = {"part_kind": "tool-call", "tool_call_id": "c", "tool_name": "ask", "args": {}}
# A store role of that release: it opens the store, and writes each batch that it gets as a line.
WORKER: Final = """
import asyncio, json, sys
from pipeline.stores.sql import ThreadStore
async def main():
    async with await ThreadStore.open(sys.argv[1], migrate=True) as store:
        print(await store.revision(), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            for batch in json.loads(line):
                await store.write(batch)
            print("written", flush=True)
asyncio.run(main())
"""


class Worker:
    """That process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def said(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode().strip()
        if not line:
            _, errors = await self.process.communicate()
            raise AssertionError(errors.decode()[-2000:])
        return line

    async def write(self, *batches: Sequence[Any]) -> None:
        """Returns when the batches are committed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(batches).encode() + b"\n")
        assert await self.said() == "written"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The code of that release."""
    try:
        yield unpacked(OLDER, tmp_path_factory.mktemp("older"))
    except NoHistory as error:
        pytest.skip(str(error))


@asynccontextmanager
async def running(code: Path, url: str) -> AsyncIterator[tuple[Worker, str]]:
    """-> the worker, and which revision it has found, or made."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, url, cwd=code, limit=2**20, **pipes)
    worker = Worker(process)
    try:
        yield worker, await worker.said()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def moved(store: ThreadStore, where: str, to: str) -> None:
    """Bring the schema to a revision."""

    def run(connection: Any) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(migrate.FOLDER))
        config.attributes["connection"] = connection
        migrate.wait_for_writers(connection)
        getattr(command, where)(config, to)

    await asyncio.to_thread(migrate._prepare)
    try:
        async with store._writing() as connection:
            await connection.run_sync(run)
    finally:
        migrate._alembic.release()


async def test_a_store_with_data_in_it_is_migrated_while_older_workers_write(
    store_url: str, older: Path, record: Any
) -> None:
    total = 0

    def some(name: str, count: int = 3) -> list[list[Any]]:
        """Batches of new turns in threads old and new, and of a revision of one that is there."""
        nonlocal total
        total += 2 * count
        again = [record("first", "kept", revision=total, text=f"said at {name}")]
        return [[record(f"thread {name}", f"{name} {n}"), record("shared", f"{name} {n}")] for n in range(count)] + [
            again
        ]

    async with ThreadStore(store_url) as store, running(older, store_url) as (worker, began):
        assert began == FIRST
        asking = record("asks", "r")
        asking["turn"]["messages"][0]["parts"].append(CALL)
        await worker.write([record("first", "kept"), asking], *some("before"))
        for revision in LATER:
            with pytest.raises(StoreError, match=f"needs {migrate.HEAD}"):
                await store.check()  # this release waits until all steps are done
            writing = asyncio.create_task(worker.write(*some(f"during {revision}", 8)))
            await moved(store, "upgrade", revision)
            await writing
            await worker.write(*some(f"after {revision}"))
            assert await store.revision() == revision
        await store.check()
        await store.keep_sums(wanted=True)
        both = [asyncio.create_task(worker.write(*some("beside"))), store.write(*some("of this release", 1)[:1])]
        await asyncio.gather(*both)
        await check(store, total + 2, f"after {LATER[-1]}", record)
        await moved(store, "downgrade", FIRST)
        await worker.write(*some("at last"))
        with pytest.raises(StoreError, match=f"needs {migrate.HEAD}"):
            await store.check()
    async with running(older, store_url) as (worker, began):
        assert began == FIRST, "it is as it was"
        await worker.write([record("first", "kept", revision=total + 1, text="the last word")])
    async with await ThreadStore.open(store_url, migrate=True) as store:
        (turn,) = (await store.thread(key("first")) or {})["turns"]
        assert "the last word" in json.dumps(turn)


def key(chat: str) -> ThreadKey:
    return ThreadKey(thread_uuid(chat)[0])


async def check(store: ThreadStore, turns: int, last: str, record: Any) -> None:
    """All is there, in whatever the steps have added, too."""
    assert (await store.counts()).turns == turns
    while await store.sum_up():
        pass
    assert (await store.compare_sums()).wrong == ()
    assert (await store.usage(UsageQuery())).total.turns == turns
    while await store.index_some():
        pass
    assert [hit.thread_id for hit in (await store.search(SearchQuery('"said at"'))).results] == [key("first").thread_id]
    # What an older worker has stored is not known to wait, until this release stores it.
    assert await store.waiting(WaitingWanted()) == []
    asking = record("asks", "r", revision=9)
    asking["turn"]["messages"][0]["parts"].append(CALL)
    await store.write([asking])
    assert [one.thread_id for one in await store.waiting(WaitingWanted())] == [key("asks").thread_id]
    # Threads of older workers are held, and expire.
    await store.hold(key("first"))
    gone = await store.expire([key("first"), key(f"thread {last}")], Retention(default=1), FAR)
    assert [one.key for one in gone] == [key(f"thread {last}")]
    async with store._reading() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM expired")) == 1
