"""What assembly makes of the whole corpus and of simulated schedules, as hashes: the same, compiled and interpreted.

python -m tests.same_bytes --schedules 10000 > interpreted.txt
PYTHONPATH=.cache/compiled/copy …the same there… > compiled.txt; diff interpreted.txt compiled.txt

A dead letter counts with its reason and its bytes; its detail may quote Python, which has other words there.
"""

import multiprocessing
import os
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click
import orjson

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.simulation.one import one, prepare
from topics import CORE, turn_record
from turnmill.wire.envelope import encode
from turnmill.wire.framing import decode

CORPUS: Final = Path(__file__).parent / "corpus"
THREAD_ID: Final = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
START: Final = 1_768_928_342_002
SHAPES: Final = ((1, 1.0), (8, 1.0), (8, 0.5))  # events a record, and how much of the stream comes


def streams() -> Iterator[tuple[str, Path]]:
    """(dialect, file) of all recorded streams."""
    for file in sorted(CORPUS.rglob("*.*")):
        if file.suffix in (".sse", ".jsonl"):
            folders = file.relative_to(CORPUS).parts
            yield folders[1 if folders[0] in ("wires", "model_runs") else 0], file


def digest(dialect: str, stream: bytes, per_record: int, share: float) -> str:
    """The hash of all that comes out of a partition to which a stream comes; what breaks off is closed in the end."""
    events = [item.event for item in decode(stream, DIALECTS[dialect].wire) if item.event is not None]
    events = events[: int(len(events) * share)]
    records = [_record(dialect, events, seq, per_record) for seq in range(0, len(events), per_record)]
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed(records)
    partition.tick(START + 10**9)
    out, found = partition.out, sha256()
    for turn in out.turns:
        found.update(turn_record.encode(turn))
    for item in (*out.telemetry, *out.marks):
        found.update(orjson.dumps(item, default=repr, option=orjson.OPT_NON_STR_KEYS))
    for refused in out.dead:
        found.update(f"{refused.reason} {refused.record.offset}".encode())
    return f"{len(out.turns)} turns {len(out.dead)} dead {found.hexdigest()}"


def _record(dialect: str, events: list[Any], seq: int, count: int) -> StoredRecord:
    envelope: dict[str, Any] = {"v": 1, "thread_id": THREAD_ID, "run_id": "r", "agent_id": "a", "dialect": dialect}
    envelope |= {"seq": seq, "ts": START + seq, "events": events[seq : seq + count]}
    return StoredRecord(encode(envelope), seq, START + seq, THREAD_ID.encode())


@click.command(help=__doc__)
@click.option("--schedules", default=1000, show_default=True, help="How many simulated schedules.")
def main(schedules: int) -> None:
    click.echo(f"core {CORE}", err=True)
    for dialect, file in streams():
        for per_record, share in SHAPES:
            name = f"{file.relative_to(CORPUS)} {per_record} {share}"
            click.echo(f"{name}: {digest(dialect, file.read_bytes(), per_record, share)}")
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), prepare) as pool:
        for played in pool.imap(partial(one, only=None, mutant=None), range(schedules), chunksize=4):
            click.echo(f"seed {played.seed} ({played.scenario}): {played.failure} {played.digest}")


if __name__ == "__main__":
    main()
