"""Files that are written whole and synced, and what the syncs of many threads have in common."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep

import pytest

from pipeline.stores import files
from pipeline.stores.files import Together, write_file


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are synced, in their order."""
    found: list[Path] = []
    monkeypatch.setattr(files, "_sync", found.append)
    monkeypatch.setattr(files, "_together", found.append)
    return found


def test_a_new_folder_is_synced_where_it_stands(tmp_path: Path, synced: list[Path]) -> None:
    write_file(tmp_path / "content" / "thread" / "one", b"1")
    assert synced == [tmp_path / "content" / "thread", tmp_path / "content", tmp_path]
    synced.clear()
    write_file(tmp_path / "content" / "thread" / "two", b"2")
    assert synced == [tmp_path / "content" / "thread"]
    assert (tmp_path / "content" / "thread" / "two").read_bytes() == b"2"


def test_what_was_written_just_now_is_synced_as_its_writer_may_have_been_killed_before(
    tmp_path: Path, synced: list[Path]
) -> None:
    path = tmp_path / "thread" / "one"
    path.parent.mkdir()
    path.write_bytes(b"1")
    write_file(path, b"2")
    assert path.read_bytes() == b"1"
    assert synced == [path.parent, tmp_path]


def test_a_folder_whose_sync_failed_is_synced_with_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path]
) -> None:
    def fails(_: Path) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(files, "_together", fails)
        with pytest.raises(OSError, match="full"):
            write_file(tmp_path / "thread" / "one", b"1")
    synced.clear()
    write_file(tmp_path / "thread" / "two", b"2")
    assert synced == [tmp_path / "thread", tmp_path]


def test_nothing_is_left_of_a_file_that_can_not_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no room"):
        write_file(tmp_path / "thread" / "one", b"1")
    assert list((tmp_path / "thread").iterdir()) == []


def test_those_that_come_while_a_folder_is_synced_share_the_next_time(tmp_path: Path) -> None:
    began, go_on, times = Event(), Event(), list[Path]()

    def sync(folder: Path) -> None:
        times.append(folder)
        began.set()
        assert go_on.wait(10)

    together = Together(sync)
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(together, tmp_path)
        assert began.wait(10)
        later = [threads.submit(together, tmp_path) for _ in range(4)]
        while _waiting(together, tmp_path) < 3:
            sleep(0.001)
        assert not any(one.done() for one in (first, *later)), "the first time may miss what these have written"
        go_on.set()
        for one in (first, *later):
            one.result(10)
    assert times == [tmp_path] * 2


def _waiting(together: Together, folder: Path) -> int:
    """How many wait for whoever syncs next."""
    shared = together._next.get(folder)
    return len(shared._condition._waiters) if shared is not None else 0  # type: ignore[attr-defined]  # of the standard library's


def test_a_failed_sync_is_everybodys(tmp_path: Path) -> None:
    def sync(_: Path) -> None:
        raise OSError("the disk is gone")

    together = Together(sync)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            together(tmp_path)
