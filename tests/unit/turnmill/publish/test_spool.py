"""One process's spool, its neighbours, and what a crash or a bad disk leaves behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnmill.errors import CallerError
from turnmill.publish import spool as spool_module
from turnmill.publish.spool import Spool, SpoolFull, fsync_all

PLENTY = 2**30


def fill(spool: Spool, *values: bytes) -> None:
    for value in values:
        spool.append(b"key", value)


def values(spool: Spool) -> list[bytes]:
    found: list[bytes] = []
    while records := spool.read():
        found += [record.value for record in records]
    return found


def die(spool: Spool) -> None:
    """What the system does when a process dies."""
    os.close(spool._lock)
    if spool._live is not None:
        os.close(spool._live)


def test_processes_have_folders_of_their_own_and_adopt_those_of_the_dead(tmp_path: Path) -> None:
    first, second = Spool(tmp_path, PLENTY), Spool(tmp_path, PLENTY)
    fill(first, b"1", b"2")
    fill(second, b"3")
    fill(first, b"4")
    die(first)
    third = Spool(tmp_path, PLENTY)
    assert (third.adopted, values(third), values(second)) == (3, [b"1", b"2", b"4"], [b"3"])
    fill(third, b"5")
    assert values(third) == [b"5"]
    die(second)
    die(third)
    last = Spool(tmp_path, PLENTY)  # nothing was confirmed; in the order in which segments were begun
    assert (last.adopted, values(last)) == (5, [b"1", b"2", b"4", b"3", b"5"])
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_confirmed_does_not_come_again_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 50)
    spool = Spool(tmp_path, PLENTY)
    fill(spool, *(b"%d" % n * 10 for n in range(10)))
    assert len(list(tmp_path.glob("*/*.log"))) > 3
    first = spool.read()
    spool.ack([record.record_end for record in first[:1]])
    die(spool)
    spool = Spool(tmp_path, PLENTY)
    assert spool.adopted == 9
    places = []
    while records := spool.read():
        places += [record.record_end for record in records]
    spool.ack(places)
    assert (spool.size, spool.unread, list(tmp_path.glob("*/*.log"))) == (0, False, [])
    fill(spool, b"and on")
    assert values(spool) == [b"and on"]
    spool.ack([places[0]])  # a late confirmation, of a segment that is gone
    assert spool.size > 0
    spool.ack([spool_module.RecordEnd(spool._segments[0], spool.size)])
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_damage_is_put_aside_and_costs_its_record_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path, PLENTY)
    fill(spool, b"one", b"two", b"three", b"four")
    die(spool)
    (file,) = tmp_path.glob("*/*.log")
    data = bytearray(file.read_bytes())
    data[data.index(b"two")] ^= 0x20
    file.write_bytes(data[:-2])  # and the last one is cut off
    spool = Spool(tmp_path, PLENTY)
    assert spool.adopted == 2
    records = spool.read()
    assert ([record.value for record in records], spool.damaged) == ([b"one", b"three"], 2)
    aside = sorted(path.read_bytes() for path in (tmp_path / "damaged").iterdir())
    assert [b"Two" in aside[0] or b"Two" in aside[1], b"fo" in aside[0] or b"fo" in aside[1]] == [True, True]
    assert "are damaged; they are kept in" in caplog.text
    assert "are a record that a crash cut off" in caplog.text
    spool.ack([record.record_end for record in records])
    assert list(tmp_path.glob("*/*.log")) == []
    spool.close()


def test_a_segment_of_nothing_but_damage_holds_nothing_up(tmp_path: Path) -> None:
    spool = Spool(tmp_path, PLENTY)
    fill(spool, b"one")
    die(spool)
    (file,) = tmp_path.glob("*/*.log")
    file.write_bytes(b"rubbish")
    spool = Spool(tmp_path, PLENTY)
    fill(spool, b"two")
    assert (spool.adopted, values(spool), spool.damaged) == (0, [b"two"], 1)
    assert len(list(tmp_path.glob("*/*.log"))) == 1


def test_a_spool_that_is_full_says_so_and_takes_more_when_there_is_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 100)
    fill(spool, b"x" * 50)
    with pytest.raises(SpoolFull, match="it holds 69 of TURNMILL_SPOOL_BYTES=100 bytes"):
        spool.append(b"key", b"y" * 50)
    spool.ack([record.record_end for record in spool.read()])
    fill(spool, b"y" * 50)
    assert values(spool) == [b"y" * 50]


FULL_DISK = """
import resource, sys
from pathlib import Path
from turnmill.publish.spool import Spool, SpoolFull
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
spool, written = Spool(Path(sys.argv[1]), 2**30), 0
try:
    while True:
        spool.append(b"key", b"%d" % written + b"x" * 100)
        written += 1
except SpoolFull as error:
    print(written, error)
"""


def test_a_disk_that_is_full_leaves_whole_records(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, text=True, check=True)
    count, _, why = done.stdout.partition(" ")
    assert why.strip() == "File too large"
    spool = Spool(tmp_path, PLENTY)
    assert (spool.adopted, len(values(spool)), spool.damaged) == (int(count), int(count), 0)
    assert int(count) == 1000 // (16 + 3 + 101)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CallerError, match=r"Permission denied.*TURNMILL_SPOOL"):
        Spool(tmp_path / "spool", PLENTY)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")
    with pytest.raises(CallerError, match=r"can't be used .*: make it writable, or set TURNMILL_SPOOL"):
        Spool(tmp_path / "spool", PLENTY)


def test_syncing_goes_on_while_segments_come_and_go(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 50)
    before = len(list(Path("/dev/fd").iterdir()))
    spool = Spool(tmp_path, PLENTY)
    assert spool.unsynced() == []
    for number in range(30):
        fill(spool, b"%d" % number * 20)
        if number % 7 == 0:
            descriptors = spool.unsynced()
            spool.ack([record.record_end for record in spool.read()])
            fsync_all(descriptors)
    spool.ack([record.record_end for record in spool.read()])
    values(spool)
    spool.close()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_what_is_refused_is_kept_with_its_reason(tmp_path: Path) -> None:
    spool = Spool(tmp_path, PLENTY)
    spool.refuse(b"k", '{"v":1,"é":"\ud83d"}'.encode("utf-8", "surrogatepass"), "too large")
    file = spool.refuse(b"k", b'{"v":1}', "too large")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["too large"] * 2
    assert json.loads(lines[1]["value"]) == {"v": 1}


def test_a_folder_that_is_taken_for_a_dead_ones_is_made_again(tmp_path: Path, monkeypatch) -> None:
    """Found by the review: a second process between the making of the lock and the locking removed the folder."""
    other, locked = Spool(tmp_path, PLENTY), spool_module.fcntl.flock

    def late(descriptor: int, how: int) -> None:
        monkeypatch.setattr(spool_module.fcntl, "flock", locked)
        [newborn] = [folder for folder in tmp_path.iterdir() if folder != other._own]
        spool_module.adopt(newborn, other._own)
        assert not newborn.exists()
        locked(descriptor, how)

    monkeypatch.setattr(spool_module.fcntl, "flock", late)
    spool = Spool(tmp_path, PLENTY)
    spool_module.adopt(spool._own, other._own)
    fill(spool, b"1")
    assert values(spool) == [b"1"]


def test_two_that_adopt_the_same_folder(tmp_path: Path, monkeypatch, caplog: pytest.LogCaptureFixture) -> None:
    dead, other = Spool(tmp_path, PLENTY), Spool(tmp_path, PLENTY)
    fill(dead, b"1")
    die(dead)
    locked = spool_module.fcntl.flock

    def late(descriptor: int, how: int) -> None:
        monkeypatch.setattr(spool_module.fcntl, "flock", locked)
        spool_module.adopt(dead._own, other._own)
        locked(descriptor, how)

    third = tmp_path / "third"
    third.mkdir()
    monkeypatch.setattr(spool_module.fcntl, "flock", late)
    spool_module.adopt(dead._own, third)
    assert [path.name for path in third.iterdir()] == []
    assert len(list(other._own.glob("*.log"))) == 1
    assert caplog.records == []


def test_nobody_else_may_read_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir(0o755)
    spool = Spool(tmp_path, PLENTY)
    fill(spool, b"1")
    [segment] = tmp_path.glob("*/*.log")
    segment.write_bytes(b"no record" + segment.read_bytes()[9:])
    assert values(spool) == []
    spool.refuse(b"key", b"value", "why")
    modes = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {path.name for path in modes} >= {"refused.jsonl", "damaged", "lock", f"{segment.stem}-0"}
    assert {path for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == set()


def test_nobody_else_may_write_where_spools_are_found(tmp_path: Path) -> None:
    """Found by an attack: with a umask of 0 others could put a folder there, whose records the next publisher sends."""
    before = os.umask(0)
    try:
        Spool(tmp_path / "home" / "spool" / "events", PLENTY)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "home").rglob("*") if path.is_dir()} == {0o700}
