"""An older version of the worker, from this repository's own history, beside the one that is tested."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.chaos.load import Answer, Load, TurnKey, load_of, mixed
from tests.chaos.scene import Scene
from tests.support.places import ROOT

WRITERS: Final = {"segment_key", "closed_key", "encode"}
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


class NoHistory(Exception):
    """There is no older version to run."""


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise NoHistory(f"no older version can be had: git {arguments[0]}: {done.stderr.decode().strip()[:200]}")
    return done.stdout


def older() -> str:
    """The oldest commit whose worker runs, and whose records at rest are those of today: topics and state."""
    today = written("HEAD")
    for commit in git("log", "--reverse", "--format=%h", "--", "pipeline/cli/worker.py").decode().split():
        if written(commit) == today:
            return commit
    raise NoHistory("no older version can be had: no commit has the same formats")


def written(commit: str) -> list[str]:
    """What decides, in that version, how entries of the state topic are written."""
    statements = ast.parse(git("show", f"{commit}:topics/state.py")).body
    versions = [node for node in statements if isinstance(node, ast.Assign)]
    writers = [node for node in statements if isinstance(node, ast.FunctionDef) and node.name in WRITERS]
    return [ast.dump(node) for node in (*versions, *writers)]


def same_tables(commit: str) -> bool:
    """Whether that version can use the store of this one."""
    migrations = ROOT / "pipeline" / "stores" / "migrations" / "versions"
    here = {path.name: path.read_bytes() for path in migrations.glob("*.py")}
    names = git("ls-tree", "--name-only", f"{commit}:pipeline/stores/migrations/versions").decode().split()
    there = {name: git("show", f"{commit}:pipeline/stores/migrations/versions/{name}") for name in names}
    return here == there


def unpacked(commit: str, folder: Path) -> Path:
    """-> a folder with that version's code."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "pipeline", "topics"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def both_agree(seed: int, runs: int) -> Load:
    """Runs of which both versions make the same turns; the others are what has been mended since."""
    fleet = mixed(seed, runs)
    here = [_turns(run) for run in fleet]
    theirs = _made_by(older(), [run.envelopes for run in fleet])
    kept = [run for run, turns in zip(fleet, here, strict=True) if all(theirs.get(k) == v for k, v in turns.items())]
    return load_of(kept, seed)


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
    commit = older()
    code = unpacked(commit, scene.folder / "older")
    stores = same_tables(commit)
    roles = None if stores else "assemble,metrics"
    scene.note = f"older: {commit}, {len(scene.load.runs)} runs both agree on"
    scene.note += "" if stores else "; it has other tables, so it leaves storing to ours"
    # The environment's Python finds this tree by itself; the older code has to come before it.
    old = [scene.worker(folder=code, PYTHONPATH=str(code), roles=roles).start() for _ in range(2)]
    new = [scene.worker().start()]
    await scene.ready(*old, *new)
    scene.publish()
    await scene.published(0.4)
    for worker in old:
        await asyncio.to_thread(worker.stop)
    new += [scene.worker().start(), scene.worker().start()]
    await scene.published(0.7)
    await asyncio.to_thread(new[1].stop)
    scene.worker(folder=code, PYTHONPATH=str(code), roles=roles).start()
    await scene.all_published()
