"""An older version of the worker, from this repository's own history, beside the one that is tested.

Both write the same topics and the same store. The older one knows nothing of tenants in names: of what it writes, the
newer one has to find out whose it is.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.chaos.hostile import of_tenant
from tests.chaos.load import Answer, Load, TurnKey, load_of, mixed
from tests.chaos.scene import Scene
from tests.support.places import ROOT
from topics import state
from topics.state import Closed, RunKey, Segment

Entry = Segment | Closed

OLDER: Final = "22ce463"  # the last one that named a run, and a stored thread, without their tenant
RUN: Final = RunKey("acme", "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11", "run/1#2")
ENTRIES: Final[tuple[Entry, ...]] = (
    Segment(3, 9, 1_768_928_342_002, [b'{"v":1}', b"\n"], 1),
    Segment(3, 9, 5, [b"{}"], 0, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    Closed(9, 4, complete=False, at=1_768_928_342_002, revision=2),
    Closed(9, -1, complete=True, at=0),
)
# Prints what the old version makes of runs: {thread/turn: hash}, from their envelopes on standard input.
ASSEMBLE: Final = """
import json, sys
from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
found = {}
for envelopes in json.load(sys.stdin):
    records, refused = assemble(DIALECTS[envelopes[0]["dialect"]], envelopes)
    for record in records:
        found[record["thread_id"] + "/" + record["turn_id"]] = None if refused else [record["hash"], record["status"]]
json.dump(found, sys.stdout)
"""
# Prints what the old version reads of such entries, and how it would write them itself: (read, key, value) of each.
UNDERSTAND: Final = """
import ast, inspect, sys
from dataclasses import asdict, is_dataclass
from topics import state
found = []
for kind, fields, key, value in ast.literal_eval(sys.stdin.read()):
    run, read = state.decode(key, value)
    known = asdict(read) if is_dataclass(read) else read._asdict()
    own = getattr(state, kind)(**{name: value for name, value in fields.items() if name in known})
    name = state.segment_key(run, own) if kind == "Segment" else state.closed_key(run, own)
    knows_tenants = "run" in inspect.signature(state.encode).parameters
    found.append((known, name.encode(), state.encode(run, own) if knows_tenants else state.encode(own)))
print(found)
"""


class NoHistory(Exception):
    """There is no older version to run."""


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise NoHistory(f"no older version can be had: git {arguments[0]}: {done.stderr.decode().strip()[:200]}")
    return done.stdout


def understood(commit: str) -> bool:
    """Whether that version reads the entries of the state topic that this one writes, and the other way round. What it
    writes itself may be of any tenant, where it knows none.
    """
    ours = [(type(entry).__name__, _fields(entry), _key(entry), state.encode(RUN, entry)) for entry in ENTRIES]
    with tempfile.TemporaryDirectory() as folder:
        code = unpacked(commit, Path(folder))
        done = subprocess.run(
            [sys.executable, "-c", UNDERSTAND], input=repr(ours), cwd=code, capture_output=True, text=True, check=False
        )
    if done.returncode:
        return False
    theirs = ast.literal_eval(done.stdout)
    return all(
        read == {name: value for name, value in _fields(entry).items() if name in read}
        and key == _key(entry)
        and state.decode(key, written) in ((RUN, entry), (RUN._replace(tenant=state.ANYONE), entry))
        for entry, (read, key, written) in zip(ENTRIES, theirs, strict=True)
    )


def _fields(entry: Entry) -> dict[str, Any]:
    return asdict(entry) if isinstance(entry, Segment) else entry._asdict()


def _key(entry: Entry) -> bytes:
    name = state.segment_key(RUN, entry) if isinstance(entry, Segment) else state.closed_key(RUN, entry)
    return name.encode()


def unpacked(commit: str, folder: Path) -> Path:
    """-> a folder with that version's code."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "pipeline", "topics"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def both_agree(seed: int, runs: int) -> Load:
    """Runs of which both versions make the same turns, every second one a tenant's; the others are what has been mended
    since.
    """
    fleet = mixed(seed, runs)
    here = [_turns(run) for run in fleet]
    theirs = _made_by(OLDER, [run.envelopes for run in fleet])
    kept = [run for run, turns in zip(fleet, here, strict=True) if all(theirs.get(k) == v for k, v in turns.items())]
    return load_of([of_tenant(run, "acme") if number % 2 else run for number, run in enumerate(kept)], seed)


def _turns(run: Any) -> dict[TurnKey, list[Any]]:
    answer = Answer()
    answer.add(run)
    return {key: [right.hash, right.status] for key, right in answer.turns.items()}


def _made_by(commit: str, runs: list[list[dict[str, Any]]]) -> dict[TurnKey, list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        code = unpacked(commit, Path(folder))
        done = subprocess.run(
            [sys.executable, "-c", ASSEMBLE],
            input=json.dumps(runs).encode(),
            cwd=code,
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(done.stdout)
    return {(key.split("/")[0], key.split("/")[1]): value for key, value in found.items()}


async def side_by_side(scene: Scene) -> None:
    """Two of the older version and one of ours; then each is replaced by one of the other."""
    code = unpacked(OLDER, scene.folder / "older")
    scene.note = f"older: {OLDER}, {len(scene.load.runs)} runs both agree on"
    # The environment's Python finds this tree by itself; the older code has to come before it.
    old = [scene.worker(folder=code, PYTHONPATH=str(code)).start() for _ in range(2)]
    new = [scene.worker().start()]
    await scene.ready(*old, *new)
    scene.publish()
    await scene.published(0.4)
    for worker in old:
        await asyncio.to_thread(worker.stop)
    new += [scene.worker().start(), scene.worker().start()]
    await scene.published(0.7)
    await asyncio.to_thread(new[1].stop)
    scene.worker(folder=code, PYTHONPATH=str(code)).start()
    await scene.all_published()
