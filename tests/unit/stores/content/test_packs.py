"""Packs of several processes in one folder: what was written is read, what was erased is nowhere, whoever died when."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.content import pack_records
from pipeline.stores.content import packs as packs_module
from pipeline.stores.content.pack_records import append
from pipeline.stores.content.packs import Packs
from tests.support.places import temporary

A, B = "a" * 36, "b" * 36 + "@" + "c" * 64
SEEN: Final = 1 << 30


def digest_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pack"))


def dies(packs: Packs) -> None:
    """Free what the system frees of a process that is killed."""
    packs._leave()
    if packs._index is not None:
        packs._index.connection.close()
        packs._index = None


def test_what_was_put_is_found_by_another_process(tmp_path: Path) -> None:
    one, other = Packs(tmp_path / "content"), Packs(tmp_path / "content")
    assert (other.folders(), other.stored(A), other.erase(A)) == (set(), [], 0)
    assert not (tmp_path / "content").exists(), "who only reads makes nothing"
    digests = one.put([(A, b"1"), (B, b"1"), (A, b"2"), (A, b"1")])
    assert digests == [digest_of(data) for data in (b"1", b"1", b"2", b"1")]
    for packs in (one, other):
        assert packs.read(B, digests[0], 1) == b"1"
        assert sorted(stored.digest for stored in packs.stored(A)) == sorted({digests[0], digests[2]})
        assert packs.folders() == {A, B}
        with pytest.raises(FileNotFoundError):
            packs.read(B, digests[2], SEEN)
        with pytest.raises(ValueError, match="more than 0 bytes"):
            packs.read(A, digests[0], 0)


def test_each_process_has_a_pack_of_its_own_and_a_dead_ones_is_taken_over(tmp_path: Path) -> None:
    one, other = Packs(tmp_path), Packs(tmp_path)
    one.put([(A, b"1")])
    other.put([(A, b"2")])
    assert len(names(tmp_path)) == 2
    dies(one)
    third = Packs(tmp_path)
    third.put([(A, b"3")])
    assert len(names(tmp_path)) == 2
    assert {stored.digest for stored in other.stored(A)} == {digest_of(data) for data in (b"1", b"2", b"3")}


def test_a_pack_whose_owner_dies_while_it_is_being_taken_over_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Packs(tmp_path), Packs(tmp_path)
    one.put([(A, b"1")])
    other.put([(A, b"2")])
    other._leave()
    with monkeypatch.context() as patch:
        patch.setattr(Packs, "_mend", lambda *_: None)
        for path in tmp_path.glob("*.pack"):
            with path.open("ab") as file:
                file.write(b"torn")
        dies(one)
        other.put([(A, b"3")])
    assert len(names(tmp_path)) == 3
    assert len(Packs(tmp_path).stored(A)) == 3


def test_a_full_pack_gets_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs_module, "PACK_BYTES", 1000)
    packs = Packs(tmp_path)
    for number in range(5):
        packs.put([(A, bytes([number]) * 600)])
    assert len(names(tmp_path)) == 3
    assert packs.erase(A, {digest_of(bytes([number]) * 600) for number in (0, 1)}) == 2
    assert len(names(tmp_path)) == 2, "a pack without values goes"
    assert packs.read(A, digest_of(b"\2" * 600), SEEN) == b"\2" * 600


def test_the_same_again_is_not_written_but_counts_as_written_now_if_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs, now = Packs(tmp_path), 1_000_000_000_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: now)
    packs.put([(A, b"1")])
    size = sum(path.stat().st_size for path in tmp_path.glob("*.pack"))
    for seconds, expected in ((3599, 0), (3600, 3600)):
        now = (1_000_000_000 + seconds) * 1_000_000_000
        packs.put([(A, b"1")])
        [stored] = packs.stored(A)
        assert stored.modified == (1_000_000_000 + expected) * 1000
    assert sum(path.stat().st_size for path in tmp_path.glob("*.pack")) == size
    assert packs.erase(A, {digest_of(b"1")}, stored.modified) == 0, "it was referred to anew"
    assert packs.erase(A, {digest_of(b"1")}, stored.modified + 1) == 1


def test_a_value_that_is_damaged_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000_000_000_000)  # so that neither is the newer one
    packs = Packs(tmp_path)
    [digest] = packs.put([(A, b"whole")])
    [path] = tmp_path.glob("*.pack")
    path.write_bytes(path.read_bytes()[:-5] + b"wrong")
    assert packs.read(A, digest, SEEN) == b"wrong", "who asks compares"
    packs.put([(A, b"whole")])
    assert packs.read(A, digest, SEEN) == b"whole"
    assert len(packs.stored(A)) == 1
    assert packs.erase(A) == 1
    assert b"wrong" not in path.read_bytes()


@pytest.mark.parametrize(("module", "failing"), [(packs_module, "_sync_data"), (pack_records, "append")])
def test_of_a_batch_that_fails_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, failing: str
) -> None:
    packs, calls = Packs(tmp_path), 0
    packs.put([(A, b"before")])
    real = getattr(module, failing)

    def fails(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if failing == "append" and calls == 1:
            return real(*args)
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(module, failing, fails)
        with pytest.raises(OSError, match="no room"):
            packs.put([(A, b"first"), (A, b"second")])
    held = b"".join(path.read_bytes() for path in tmp_path.glob("*.pack"))
    assert (b"before" in held, b"first" in held, b"second" in held) == (True, False, False)
    packs.put([(A, b"first"), (A, b"second")])
    assert len(packs.stored(A)) == 3


def test_a_folder_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    packs = Packs(tmp_path / "content")
    packs.put([(A, b"1")])
    shutil.rmtree(tmp_path / "content")
    packs.put([(A, b"2")])
    assert [stored.digest for stored in Packs(tmp_path / "content").stored(A)] == [digest_of(b"2")]


def test_a_pack_from_a_backup_replaces_a_newer_one(tmp_path: Path) -> None:
    packs = Packs(tmp_path)
    packs.put([(A, b"1")])
    [path] = tmp_path.glob("*.pack")
    backup = path.read_bytes()
    packs.put([(A, b"2")])
    dies(packs)
    path.write_bytes(backup)
    packs = Packs(tmp_path)
    assert [stored.digest for stored in packs.stored(A)] == [digest_of(b"1")]
    packs.put([(A, b"2")])
    assert packs.read(A, digest_of(b"2"), SEEN) == b"2"
    dies(packs)
    path.unlink()
    assert Packs(tmp_path).stored(A) == []


# ---- any order of events

PROCESSES: Final = st.integers(0, 1)
FOLDERS: Final = (A, B)
NUMBERS: Final = range(3)
TORN: Final = ("whole", "within its length", "within its names", "within its value", "zeros for its value", "no names")
STEPS: Final = st.one_of(
    st.tuples(
        st.just("put"),
        PROCESSES,
        st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NUMBERS)), min_size=1, max_size=3),
    ),
    st.tuples(st.just("erase"), PROCESSES, st.sampled_from(FOLDERS), st.none() | st.sets(st.sampled_from(NUMBERS))),
    st.tuples(st.just("killed"), PROCESSES, st.sampled_from(NUMBERS), st.sampled_from(TORN[:4])),
    st.tuples(st.just("power"), st.sampled_from(NUMBERS), st.sampled_from(TORN)),
    st.tuples(st.just("index"), st.sampled_from(("synced", "not synced"))),
    st.tuples(st.just("check"), PROCESSES),
)


def value(number: int) -> bytes:
    return b"<value %d>" % number * (1 + number * 5)


class Model:
    """A folder, the processes that use it, and what a dictionary in its place would hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = [Packs(folder) for _ in range(2)]
        self.held: dict[str, set[int]] = defaultdict(set)
        self.perhaps: dict[str, set[int]] = defaultdict(set)  # of batches that did not come to their end
        self.saved: Path | None = None  # the index as it is on disk at least

    def put(self, process: int, values: Sequence[tuple[str, int]]) -> None:
        self.processes[process].put([(folder, value(number)) for folder, number in values])
        for folder, number in values:
            self.held[folder].add(number)
            self.perhaps[folder].discard(number)

    def erase(self, process: int, folder: str, numbers: set[int] | None) -> None:
        wanted = {digest_of(value(number)) for number in numbers} if numbers is not None else None
        there = self.held[folder] | self.perhaps[folder]
        going = there if numbers is None else there & numbers
        count = self.processes[process].erase(folder, wanted)
        assert len(going & self.held[folder]) <= count <= len(going)
        self.held[folder] -= going
        self.perhaps[folder] -= going
        self.save()

    def save(self) -> None:
        """An erasure is synced, and with it all that the index has."""
        if (self.folder / "index.db").exists():
            self.saved = self.folder / "saved"
            self.saved.unlink(missing_ok=True)
            with (
                closing(sqlite3.connect(self.folder / "index.db")) as now,
                closing(sqlite3.connect(self.saved)) as then,
            ):
                now.backup(then)

    def killed(self, process: int, number: int, torn: str) -> None:
        """In the middle of a batch, or before its value is in the index."""
        packs = self.processes[process]
        if packs._open_pack is not None and number not in self.held[A]:
            file, begin, data = packs._open_pack.file, packs._open_pack.end, value(number)
            end = append(file, begin, A, data, sha256(data).digest(), 1).end
            names, at = begin + 16, end - len(data)
            cut = {"within its length": begin + 8, "within its names": names + 40, "within its value": end - 1}
            os.ftruncate(file, cut.get(torn, end))
            if torn == "zeros for its value":
                os.pwrite(file, bytes(end - at), at)
            if torn == "no names":
                os.pwrite(file, bytes(at - names), names)
            self.perhaps[A].add(number)
        dies(packs)
        self.processes[process] = Packs(self.folder)

    def power(self, number: int, torn: str) -> None:
        """All processes are gone, and so is what the index has not synced. Blocks of a record may be missing."""
        for process in range(2):
            self.killed(process, number, torn)
        if self.saved is not None:
            for name in ("index.db", "index.db-wal", "index.db-shm"):
                (self.folder / name).unlink(missing_ok=True)
            shutil.copy(self.saved, self.folder / "index.db")

    def index(self, made: str) -> None:
        """The index is lost while no process runs, and made again from the packs."""
        for process in range(2):
            dies(self.processes[process])
            self.processes[process] = Packs(self.folder)
        for name in ("index.db", "index.db-wal", "index.db-shm", "saved"):
            (self.folder / name).unlink(missing_ok=True)
        self.saved = None
        if made == "synced":
            self.processes[0].folders()
            self.save()

    def check(self, process: int) -> None:
        packs, known = self.processes[process], {digest_of(value(number)): number for number in NUMBERS}
        for folder in FOLDERS:
            stored = {one.digest: one.size for one in packs.stored(folder)}
            assert self.held[folder] <= {known[one] for one in stored} <= self.held[folder] | self.perhaps[folder]
            for number in self.held[folder]:
                digest = digest_of(value(number))
                assert packs.read(folder, digest, SEEN) == value(number)
                assert stored[digest] == len(value(number))
        self.check_disk()

    def check_disk(self) -> None:
        anywhere = set[int]().union(*self.held.values(), *self.perhaps.values())
        on_disk = b"".join(path.read_bytes() for path in self.folder.glob("*.pack"))
        for number in set(NUMBERS) - anywhere:
            assert b"<value %d>" % number not in on_disk, "it was erased"


@pytest.mark.parametrize("torn", TORN)
def test_what_a_dead_process_left_goes_with_its_folder_and_can_be_written_again(tmp_path: Path, torn: str) -> None:
    model = Model(tmp_path)
    model.put(0, [(A, 0), (B, 0)])
    model.put(1, [(B, 1)])  # it has looked at all packs already
    model.killed(0, 2, torn)
    model.erase(1, A, None)
    model.check(1)
    model.killed(1, 2, torn)
    model.put(0, [(A, 2)])
    model.check(0)
    model.check(1)


@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_any_order_of_events_leaves_what_a_dictionary_would_hold(steps: list[Any]) -> None:
    with (
        tempfile.TemporaryDirectory(dir=temporary()) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(packs_module, "PACK_BYTES", 700)
        patch.setattr(packs_module, "_sync_data", lambda _: None)
        model = Model(Path(folder))
        for name, *arguments in steps:
            getattr(model, name)(*arguments)
            model.check_disk()
        for process in range(2):
            model.check(process)
        for packs in model.processes:
            dies(packs)


# ---- processes that are killed

PROGRAM: Final = """
import sys
from pathlib import Path
from pipeline.stores.content.packs import Packs

packs, number = Packs(Path(sys.argv[1])), 0
while True:
    values = [(sys.argv[2], b"%s %d " % (sys.argv[2].encode(), number + n) * 3000) for n in range(5)]
    print(*packs.put(values), flush=True)
    number += 5
"""


def test_what_a_process_has_said_is_written_outlives_its_death(tmp_path: Path) -> None:
    content, said = tmp_path / "content", defaultdict[str, list[str]](list)
    reader = Packs(content)
    for _ in range(3):
        writers = {
            folder: subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(content), folder], stdout=subprocess.PIPE, text=True
            )
            for folder in (A, B)
        }
        for folder, writer in writers.items():
            assert writer.stdout is not None
            for _ in range(20):
                said[folder] += writer.stdout.readline().split()
                assert reader.read(folder, said[folder][-1], SEEN), "while it goes on"
            writer.send_signal(signal.SIGKILL)
            said[folder] += [word for word in writer.stdout.read().split() if len(word) == 64]
            writer.wait()
            writer.stdout.close()
        for folder, digests in said.items():
            assert len(set(digests)) >= 100
            for digest in set(digests):
                assert digest_of(reader.read(folder, digest, SEEN)) == digest
    assert reader.erase(A) >= len(set(said[A]))
    on_disk = b"".join(path.read_bytes() for path in content.glob("*.pack"))
    assert A.encode() not in on_disk
    assert all(digest_of(reader.read(B, digest, SEEN)) == digest for digest in set(said[B]))
