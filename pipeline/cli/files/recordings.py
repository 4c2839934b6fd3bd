"""Reads and checks recorded runs: native streams with a FILE.run.json each, or JSON lines of envelopes."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pipeline.assembly.dialect import Dialect
from pipeline.cli.files.assemble import CONTEXT, read_file, run_info
from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import UnknownWire, is_foreign, looks_like, recognise
from pipeline.turns.times import epoch_ms
from topics.agent_event import explain
from turnmill.errors import CallerError, InvalidRecord
from turnmill.identity import thread_uuid
from turnmill.limits import RECORD_BYTES
from turnmill.publish.run_info import RunInfo
from turnmill.wire.envelope import VERSION, encode, loads
from turnmill.wire.framing import Framed, decode

SUFFIXES: Final = (".sse", ".jsonl", ".ndjson")
STDIN: Final = Path("-")
LARGEST: Final = RECORD_BYTES - 2_000  # bytes of an event; its record has ids and times, too
PLACE: Final = re.compile(r": line 1 column (\d+) \(char \d+\)$")  # JSON parsers count within the event
MAX_SHOWN: Final = 3  # problems that the error names for each file


@dataclass(frozen=True, slots=True)
class Stream:
    """One run's native events. `thread_id` is any conversation id; `started`: epoch ms, if known."""

    source: str
    dialect: str
    thread_id: str
    run_id: str
    agent_id: str
    events: tuple[dict[str, Any], ...]
    info: dict[str, Any]
    started: int | None = None
    end: str = "disconnected"  # the publisher's end; a terminal event of the stream takes precedence
    tenant: str | None = None

    @property
    def size(self) -> int:
        """Number of events."""
        return len(self.events)

    def copy(self, number: int | str, *, same_thread: bool) -> Stream:
        """Return the same run under new ids.

        `number` is appended to the run's and, without `same_thread`, the thread's id.
        """
        thread_id = self.thread_id if same_thread else f"{self.thread_id}-{number}"
        return replace(self, run_id=f"{self.run_id}-{number}", thread_id=thread_id)


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Records of a thread in the form of the topic, each as (epoch ms, value)."""

    source: str
    thread_id: str
    runs: int
    size: int  # events
    records: tuple[tuple[int, bytes], ...]

    @property
    def started(self) -> int:
        """Epoch ms of the first record."""
        return self.records[0][0]

    def copy(self, number: int | str, *, same_thread: bool) -> Envelopes:
        """Return the same runs under new ids, as in Stream.copy."""
        thread_id = self.thread_id if same_thread else thread_uuid(f"{self.thread_id}-{number}")[0]
        records = []
        for ts, value in self.records:
            envelope = loads(value)
            renamed = envelope | {"thread_id": thread_id, "run_id": f"{envelope['run_id']}-{number}"}
            records.append((ts, encode(renamed)))
        return replace(self, thread_id=thread_id, records=tuple(records))


Recording = Stream | Envelopes


@dataclass(frozen=True, slots=True)
class Found:
    """The recordings of a file. `problems`: why it can't be published; `warnings`: messages for the user."""

    recordings: tuple[Recording, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files, and the streams in folders, by name. Raises CallerError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not inside:
            raise CallerError(f"{path} holds no stream: files named {', '.join('*' + s for s in SUFFIXES)} are taken")
        files += inside
    return files


def read(file: Path, dialect: str | None, overrides: dict[str, str]) -> Found:
    """Return the recordings of a file. `dialect` and `overrides` take precedence over FILE.run.json.

    If neither names the dialect, it is recognised by the first events.
    """
    data = sys.stdin.buffer.read() if file == STDIN else read_file(file)
    name = "stdin" if file == STDIN else str(file)
    if _is_envelopes(data):
        return _envelopes(name, data)
    if name.endswith(CONTEXT):
        return Found(problems=(f"{name}: a run's context, not its stream: name {name.removesuffix(CONTEXT)}",))
    info = {} if file == STDIN else run_info(file)
    info.update(overrides)
    wire = dialect or info.get("dialect")
    notes: list[str] = []
    if wire is None:
        try:
            recognised = recognise(data, info.get("request"))
        except UnknownWire as error:
            return Found(problems=(f"{name}: {error}{error.hint}",))
        if recognised is None:
            return Found(problems=(f"{name}: no event is in it",))
        wire = recognised.name
        notes = [f"read as {wire}, by its first events"]
    if wire not in DIALECTS:
        return Found(problems=(f"{name}{CONTEXT}: no dialect is called {wire!r:.80}",))
    framed = decode(data, DIALECTS[wire].wire)
    problems, warnings = check(framed, DIALECTS[wire])
    if problems:
        other = looks_like(data, DIALECTS[wire])
        hint = [] if other is None else [f"it looks like --dialect {other}"]
        return Found(problems=tuple(f"{name}: {problem}" for problem in [*_shortened(problems), *hint]))
    events = tuple(item.event for item in framed if item.event is not None)
    known = {key: info[key] for key in RunInfo.model_fields if info.get(key) is not None}
    stream = Stream(
        name,
        wire,
        str(info.get("thread_id") or DIALECTS[wire].conversation_of(events) or uuid4()),
        str(info.get("run_id") or uuid4()),
        str(info.get("agent_id") or info.get("agent_name") or "agent"),
        events,
        known,
        epoch_ms(info.get("started_at")),
        info.get("end") or "disconnected",
        info.get("tenant"),
    )
    return Found((stream,), warnings=tuple(f"{name}: {warning}" for warning in notes + warnings))


def check(framed: Sequence[Framed], dialect: Dialect) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of one stream's events.

    An event that can't be read, or lacks the dialect's type key, is an error. An unknown type is only a warning, since
    protocols grow; but a stream of nothing but unknown types is of another protocol.
    """
    problems, unknown = [], Counter[str]()
    for item in framed:
        if item.event is None:
            detail = item.error.detail if item.error else f"line {item.line}: no event"
            problems.append(PLACE.sub(r" at column \1", detail))
        elif not dialect.wire.takes(kind := item.event.get(dialect.wire.kind)):
            needs = f"an event of {dialect.name} needs a string {dialect.wire.kind!r}"
            problems.append(f"line {item.line}: {needs}, got {kind!r:.80}")
        elif len(item.raw) > LARGEST:
            problems.append(f"line {item.line}: the event has {len(item.raw):,} bytes, and a record holds {LARGEST:,}")
        elif isinstance(kind, str) and not (dialect.knows(item.event) or kind.startswith("data-")):
            unknown[kind] += 1
    if not framed:
        problems.append("no event is in it")
    elif not problems and is_foreign(dialect, [item.event or {} for item in framed]):
        first = framed[0]
        kind = (first.event or {}).get(dialect.wire.kind)
        said = "this" if kind is None else f"{kind!r:.80}"
        problems.append(f"line {first.line}: {said} is no event of {dialect.name}, nor is any other here")
    if problems:
        return problems, []
    listed = ", ".join(f"{kind[:80]} ({count})" for kind, count in unknown.items())
    return [], [f"types that {dialect.name} does not know are published as they are: {listed}"] if unknown else []


def _shortened(problems: list[str]) -> list[str]:
    if len(problems) <= MAX_SHOWN + 1:
        return problems
    return [*problems[:MAX_SHOWN], f"and {len(problems) - MAX_SHOWN} more"]


def _is_envelopes(data: bytes) -> bool:
    try:
        value = loads(data.lstrip().split(b"\n", 1)[0])
    except InvalidRecord:
        return False
    return isinstance(value, dict) and value.get("v") == VERSION and isinstance(value.get("events"), list)


def _envelopes(name: str, data: bytes) -> Found:
    """Return a recording for each thread in JSON lines of envelopes, with its records in the file's order."""
    problems: list[str] = []
    threads = defaultdict[str, list[tuple[dict[str, Any], bytes]]](list)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        wrong = explain(line)
        if len(line) > RECORD_BYTES:
            problems.append(f"line {number}: the record has {len(line):,} bytes, and may have {RECORD_BYTES:,}")
        elif wrong:
            problems.append(f"line {number}: {'; '.join(wrong)}")
        else:
            envelope = loads(line)
            threads[thread_uuid(envelope["thread_id"])[0]].append((envelope, line.strip()))
    if problems:
        return Found(problems=tuple(f"{name}: {problem}" for problem in _shortened(problems)))
    recordings = []
    for thread_id, rows in threads.items():
        runs, size = {envelope["run_id"] for envelope, _ in rows}, sum(len(envelope["events"]) for envelope, _ in rows)
        records = tuple((envelope["ts"], line) for envelope, line in rows)
        recordings.append(Envelopes(name, thread_id, len(runs), size, records))
    return Found(tuple(recordings))
