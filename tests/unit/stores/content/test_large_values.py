"""Values that are written at the same time share a sync; what fails fails for all of them, and for no other."""

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pipeline.stores.content import packs as packs_module
from pipeline.stores.content.large_values import Packed
from pipeline.stores.database.errors import StoreError

FOLDER = "a" * 36


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The packs that are synced."""
    found, real = list[int](), packs_module._sync_data
    monkeypatch.setattr(packs_module, "_sync_data", lambda file: found.append(file) or real(file))
    return found


async def test_values_that_come_together_share_a_sync(tmp_path: Path, syncs: list[int]) -> None:
    values = Packed(tmp_path.as_uri())
    digests = await asyncio.gather(*(values.put(FOLDER, b"%d" % n, "text/plain") for n in range(50)))
    assert len(syncs) == 1
    assert [await values.read(FOLDER, digest, None) for digest in digests] == [b"%d" % n for n in range(50)]


async def test_those_that_come_meanwhile_share_the_next_one(
    tmp_path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    values, began, go_on = Packed(tmp_path.as_uri()), asyncio.Event(), Event()
    loop, real = asyncio.get_running_loop(), values.packs.put

    def slow(batch: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(60)
        return real(batch)

    monkeypatch.setattr(values.packs, "put", slow)
    first = asyncio.create_task(values.put(FOLDER, b"first", "text/plain"))
    await began.wait()
    later = [asyncio.create_task(values.put(FOLDER, b"%d" % n, "text/plain")) for n in range(9)]
    await asyncio.sleep(0)
    later[0].cancel()
    assert not any(task.done() for task in (first, *later[1:]))
    go_on.set()
    await asyncio.gather(first, *later, return_exceptions=True)
    assert len(syncs) == 2
    assert len(await values.stored(FOLDER)) == 10


async def test_a_failure_is_that_of_its_batch_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError("no room")

    values = Packed(tmp_path.as_uri())
    with monkeypatch.context() as broken:
        broken.setattr(packs_module, "_sync_data", fails)
        found = await asyncio.gather(
            *(values.put(FOLDER, b"%d" % n, "text/plain") for n in range(3)), return_exceptions=True
        )
    assert [isinstance(one, StoreError) and one.transient and "no room" in str(one) for one in found] == [True] * 3
    assert await values.stored(FOLDER) == []
    await values.put(FOLDER, b"0", "text/plain")
    assert len(await values.stored(FOLDER)) == 1


def test_who_waits_when_the_loop_ends_waits_no_longer(tmp_path: Path) -> None:
    async def ends() -> asyncio.Task[str]:
        task = asyncio.create_task(values.put(FOLDER, b"1", "text/plain"))
        await asyncio.sleep(0)
        return task

    values = Packed(tmp_path.as_uri())
    assert asyncio.run(ends()).cancelled()
    assert asyncio.run(values.put(FOLDER, b"2", "text/plain"))
