"""Lines of sessions -> the runs that their readers make of them, and the threads that these become."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.cli.histories.session_files import SOURCES, files_of
from pipeline.cli.histories.session_import import Counts, Import, Sink
from pipeline.dialects import DIALECTS
from pipeline.dialects.transcript import Reader, RunEvent, RunOpened, RunOver
from pipeline.turns.thread_document import thread_document
from tests.support.sessions import Opencode
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Read:
    """Runs as envelopes, with the words that began them as `said`; documents by the ids of their threads."""

    runs: list[Fields]
    threads: dict[str, Fields]
    refused: list[str]
    records: list[TurnRecord]


def read(files: Iterable[tuple[Reader, Iterable[Any]]]) -> Read:
    """Read whole files, one after the other."""
    runs: list[Fields] = []
    for reader, lines in files:
        running: dict[str, Fields] = {}
        for line in lines:
            for step in reader.read(line):
                if isinstance(step, RunOpened):
                    thread, _ = thread_uuid(step.thread)
                    head = {"v": 1, "thread_id": thread, "run_id": step.run, "agent_id": step.agent, "seq": 0, "ts": 0}
                    running[step.chain] = {**head, "dialect": reader.dialect, "run": step.info, "events": [], "dt": []}
                    runs.append(running[step.chain])
                elif isinstance(step, RunEvent):
                    run = running[step.chain]
                    run["ts"] = run["ts"] or step.at
                    run["events"].append(step.event)
                    run["dt"].append(step.at - run["ts"])
                elif isinstance(step, RunOver):
                    running.pop(step.chain)["end"] = step.end
    records: dict[str, list[TurnRecord]] = defaultdict(list)
    refused: list[str] = []
    for run in runs:
        made, dead = assemble(DIALECTS[run["dialect"]], [run])
        records[run["thread_id"]] += made
        refused += [f"{one.reason}: {one.detail}" for one in dead]
        run["said"] = _said(run["events"])
    threads = {name: thread_document(name, some) for name, some in records.items()}
    return Read(runs, threads, refused, [record for some in records.values() for record in some])


async def import_all(home: Path, source: str, sink: Sink) -> Counts:
    """Import all sessions of a program below a folder, and return what was counted."""
    reading = Import(SOURCES[source], sink)
    for path in files_of(SOURCES[source], [home]):
        file = reading.open(path)
        await reading.read(file, lambda _: None)
        reading.close(file)
    return reading.counts


def opencodes_lines(*sessions: Opencode) -> Iterator[Fields]:
    """What is read of whole sessions of opencode."""
    for one in sessions:
        session = {"id": one.session, "version": "1.18.33", **one.facts}
        for message, parts in one.rows:
            line = {"session": session, "message": message}
            if message["role"] == "user":
                yield {**line, "parts": parts}
            else:
                yield from ({**line, "part": part} for part in parts)
                yield line


def _said(events: list[Fields]) -> str | None:
    for event in events:
        asked = event.get("request", {}).get("input") or [event.get("message")]
        for message in asked:
            content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
            if content is not None:
                return content if isinstance(content, str) else str(content[0].get("text"))
    return None
