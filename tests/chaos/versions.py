"""Another version of the worker beside the one that is tested: of a commit that is given, or one made of this tree.

Both read and write the same topics and the same store. What the made one writes has more fields than this one knows.
"""

import ast
import asyncio
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.chaos.hostile import of_tenant
from tests.chaos.load import Load, load_of, mixed
from tests.chaos.scene import Scene
from tests.support.places import ROOT
from topics import state
from topics.state import Clocks, Closed, RunKey, Segment

Entry = Segment | Closed

PACKAGES: Final = ("pipeline", "topics", "turnmill")
CHANGES: Final = (  # file, its text, and what a later version may have there
    ("topics/state.py", '"at": entry.at}', '"at": entry.at, "later": 1}'),
    ("pipeline/assembly/finish.py", '"ranges": ranges,', '"ranges": ranges, "later": 1,'),
)
RUN: Final = RunKey("acme", "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11", "run/1#2")
ENTRIES: Final[tuple[Entry, ...]] = (
    Segment(3, 9, 1_768_928_342_002, Clocks(7), [b'{"v":1}', b"\n"], 1),
    Segment(3, 9, 5, Clocks(3, 4, 5), [b"{}"], 0, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 9),
    Closed(9, 4, complete=False, at=1_768_928_342_002, revision=2),
    Closed(9, -1, complete=False, at=0, cut=True),
)
# Prints how the version in the working directory writes the entries that it reads on standard input.
WRITE_AGAIN: Final = """
import ast, sys
from topics import state
print([state.encode(*state.decode(key, value)) for key, value in ast.literal_eval(sys.stdin.read())])
"""


class NoHistory(Exception):
    """There is no other version to run."""


def made(folder: Path) -> Path:
    """-> the folder with this tree's code as it may be later."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "compiled.json")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for path, text, later in CHANGES:
        source = (folder / path).read_text(encoding="utf-8")
        assert source.count(text) == 1, f"{path} has {text} {source.count(text)} times: change CHANGES with it"
        (folder / path).write_text(source.replace(text, later), encoding="utf-8")
    return folder


def unpacked(commit: str, folder: Path) -> Path:
    """-> the folder with that version's code. Raises NoHistory."""
    done = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    if done.returncode:
        raise NoHistory(f"{commit} can't be had: {done.stderr.decode().strip()[:200]}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def written_again(code: Path) -> list[bytes]:
    """-> ENTRIES as this version writes them, read and written by the version in that folder."""
    ours = repr([(_key(entry), state.encode(RUN, entry)) for entry in ENTRIES])
    command = [sys.executable, "-c", WRITE_AGAIN]
    done = subprocess.run(command, input=ours, cwd=code, stdout=subprocess.PIPE, text=True, check=True)
    found: list[bytes] = ast.literal_eval(done.stdout)
    return found


def read(values: list[bytes]) -> list[tuple[RunKey, Entry]]:
    """-> what this version reads where ENTRIES were written so."""
    return [state.decode(_key(entry), value) for entry, value in zip(ENTRIES, values, strict=True)]


def _key(entry: Entry) -> bytes:
    name = state.segment_key(RUN, entry) if isinstance(entry, Segment) else state.closed_key(RUN, entry)
    return name.encode()


def every_second_a_tenants(seed: int, runs: int) -> Load:
    """Runs of which both versions make the same turns."""
    return load_of(
        [of_tenant(run, "acme") if number % 2 else run for number, run in enumerate(mixed(seed, runs))], seed
    )


async def side_by_side(scene: Scene) -> None:
    """Two of the other version and one of ours; then each is replaced by one of the other."""
    folder = scene.folder / "other"
    code = made(folder) if scene.beside is None else unpacked(scene.beside, folder)
    scene.note = f"beside {scene.beside or 'a made one'}"
    # The environment's Python finds this tree by itself; the other code has to come before it.
    other = [scene.worker(folder=code, PYTHONPATH=str(code)).start() for _ in range(2)]
    ours = [scene.worker().start()]
    await scene.ready(*other, *ours)
    scene.publish()
    await scene.published(0.4)
    for worker in other:
        await asyncio.to_thread(worker.stop)
    ours += [scene.worker().start(), scene.worker().start()]
    await scene.published(0.7)
    await asyncio.to_thread(ours[1].stop)
    scene.worker(folder=code, PYTHONPATH=str(code)).start()
    await scene.all_published()
