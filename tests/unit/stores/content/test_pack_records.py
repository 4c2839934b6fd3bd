"""Records of a pack: what is read back, what an erasure leaves, and what is no record."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from pipeline.stores.content import pack_records
from pipeline.stores.content.pack_records import Record, append, erase, record_at, records, value_of

VALUES = {"a" * 36: b"first" * 3000, "b" * 36 + "@" + "c" * 64: b"", "ä": b"third"}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "one.pack", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def filled(file: int) -> list[Record]:
    """Write VALUES."""
    written, end = [], 0
    for number, (folder, data) in enumerate(VALUES.items()):
        written.append(append(file, end, folder, data, sha256(data).digest(), number))
        end = written[-1].end
    return written


def test_what_was_written_is_read(file: int) -> None:
    written = filled(file)
    assert list(records(file, 0)) == written
    assert {one.folder: value_of(file, one) for one in written} == VALUES
    assert [one.size for one in written] == [len(data) for data in VALUES.values()]
    assert written[-1].end == os.fstat(file).st_size
    assert list(records(file, written[1].begin)) == written[1:]


@pytest.mark.parametrize("system", ["Linux", "another"])
def test_an_erased_record_has_nothing_but_its_length(file: int, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "another":
        monkeypatch.setattr(pack_records, "_fallocate", lambda: None)
    first, second, third = filled(file)
    size, blocks = os.fstat(file).st_size, os.fstat(file).st_blocks
    for _ in range(2):  # again, as a repeated erasure does
        erase(file, first.begin, first.end)
        assert list(records(file, 0)) == [Record(first.begin, first.end), second, third]
        assert os.pread(file, first.end - 16, 16) == bytes(first.end - 16)
        assert os.fstat(file).st_size == size
    if system == "Linux":
        os.fsync(file)
        assert os.fstat(file).st_blocks < blocks, "the disk has the space back"


def test_a_file_system_without_holes_gets_zeros(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_records, "_fallocate", lambda: lambda *_: -1)
    first, *others = filled(file)
    erase(file, first.begin, first.end)
    assert list(records(file, 0)) == [Record(first.begin, first.end), *others]


def test_a_torn_record_is_none(file: int) -> None:
    *whole, last = filled(file)
    for end in range(last.begin, last.end):
        os.ftruncate(file, end)
        assert list(records(file, 0)) == whole


@pytest.mark.parametrize("at", range(16))
def test_a_record_whose_beginning_was_changed_is_none(file: int, at: int) -> None:
    first, *_ = filled(file)
    byte = os.pread(file, 1, at)[0]
    os.pwrite(file, bytes([byte ^ 1]), at)
    assert record_at(file, first.begin) is None


def test_a_record_whose_names_were_changed_has_none(file: int) -> None:
    first, *others = filled(file)
    for at in range(16, 16 + 45 + 36):
        byte = os.pread(file, 1, at)
        os.pwrite(file, bytes([byte[0] ^ 1]), at)
        assert list(records(file, 0)) == [Record(first.begin, first.end), *others]
        os.pwrite(file, byte, at)
    assert record_at(file, 0) == first


def test_a_folder_needs_a_name_that_fits(file: int) -> None:
    for name in ("", "x" * 256):
        with pytest.raises(ValueError, match="names no folder"):
            append(file, 0, name, b"", bytes(32), 0)
    assert os.fstat(file).st_size == 0
