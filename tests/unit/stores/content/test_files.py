"""Files that are written whole and synced."""

import os
from pathlib import Path

import pytest

from pipeline.stores.content import files
from pipeline.stores.content.files import write_file


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are synced, in their order."""
    found: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", found.append)
    return found


def test_a_new_folder_is_synced_where_it_stands(tmp_path: Path, synced: list[Path]) -> None:
    write_file(tmp_path / "archive" / "day" / "one", b"1")
    assert synced == [tmp_path / "archive" / "day", tmp_path / "archive", tmp_path]
    synced.clear()
    write_file(tmp_path / "archive" / "day" / "two", b"2")
    assert synced == [tmp_path / "archive" / "day"]
    assert (tmp_path / "archive" / "day" / "two").read_bytes() == b"2"


def test_a_folder_whose_sync_failed_is_synced_with_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path]
) -> None:
    def fails(folder: Path) -> None:
        if folder == tmp_path:
            raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(files, "sync_folder", fails)
        with pytest.raises(OSError, match="full"):
            write_file(tmp_path / "day" / "one", b"1")
    synced.clear()
    write_file(tmp_path / "day" / "two", b"2")
    assert synced == [tmp_path / "day", tmp_path]


def test_nothing_is_left_of_a_file_that_can_not_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no room"):
        write_file(tmp_path / "day" / "one", b"1")
    assert list((tmp_path / "day").iterdir()) == []
