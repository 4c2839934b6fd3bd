"""Sessions of agents' programs -> runs, of which those alone are handed on that are not stored yet.

A run counts as stored, too, if a response of it was captured, or published by its program, as it came.

What comes behind the end of a run that is stored is a run of its own that continues it: RUN+N, where N is the number of
its first event in RUN. The store knows how many events each of them has, so an import goes on where any other stopped.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from pipeline.cli.histories.session_files import Source, name_of
from pipeline.cli.histories.session_lines import Lines
from pipeline.dialects.transcript import Homes, Reader, RunEvent, RunOpened, RunOver
from topics.json_text import Fields
from turnmill.capture.fitting import fitted
from turnmill.errors import InvalidRecord

OVER_AFTER: Final = 3_600_000  # ms: a run of which nothing was written for so long is over
PRINTED_WITHIN: Final = 1_000  # ms after which a program has surely printed what it has written into its file
MALFORMED: Final = (KeyError, TypeError, AttributeError, ValueError)  # of a line that its reader does not understand


class Output(Protocol):
    """A run on its way out."""

    async def send(self, event: Any, *, at: int | None = None) -> None: ...
    async def end(self, end: str = "complete", *, at: int | None = None) -> None: ...
    def leave(self) -> None: ...


class Sink(Protocol):
    """The receiver of runs."""

    async def stored(self, thread: str) -> Mapping[str, int]:
        """Return the number of stored events of each run of a thread that has any."""
        ...

    async def answered(self, thread: str) -> Sequence[int]:
        """Return when responses began in stored runs of a thread that were not imported, epoch ms."""
        ...

    def run(self, opened: RunOpened, dialect: str, first_seq: int) -> Output:
        """Begin a run, or go on with it from one of its events on."""
        ...


@dataclass(slots=True, eq=False)
class Part:
    """A run as it is handed on: the events from `first` on. `known` of them are stored, and it is closed then."""

    opened: RunOpened
    first: int
    known: int | None
    output: Output | None = None


@dataclass(slots=True, eq=False)
class Running:
    """A run whose lines are read.

    `index`: of its next event; `at`: epoch ms of the last event, `sent_at`: `time.monotonic()`; `new`: some were sent.
    `answered`: when responses of its thread came from the program itself; `held`: events, until it is known whether
    those are among them.
    """

    opened: RunOpened
    stored: Mapping[str, int]
    part: Part
    answered: Sequence[int]
    held: list[RunEvent] = field(default_factory=list)
    index: int = 0
    at: int = 0
    ended: bool = False
    new: bool = False
    paused: bool = False
    sent_at: float = 0.0


@dataclass(slots=True, eq=False)
class File:
    """A file while it is read."""

    lines: Lines
    reader: Reader
    running: dict[str, Running] = field(default_factory=dict)  # by chain


@dataclass(slots=True)
class Counts:
    """`new`: runs, or parts of some, that were handed on; `known`: runs of which nothing was; `cut`: events."""

    files: int = 0
    new: int = 0
    known: int = 0
    cut: int = 0
    broken: list[str] = field(default_factory=list)  # places of lines that can't be read
    unread: list[str] = field(default_factory=list)  # files that can't be read


class Import:
    """Reads files of a program, and hands their runs to a sink.

    `settled`: seconds for which a worker surely takes what comes behind a run's end.
    """

    def __init__(self, source: Source, sink: Sink, settled: float = 2.0) -> None:
        self.counts = Counts()
        self._source = source
        self._sink = sink
        self._settled = settled
        self._homes = Homes()
        self._stored: dict[str, Mapping[str, int]] = {}  # by thread, while a file is read
        self._answered: dict[str, Sequence[int]] = {}  # likewise
        self._newest: dict[tuple[str, str], str] = {}  # the last part of runs that have several

    async def stored_first(self, files: Iterable[Path]) -> list[Path]:
        """Return the files, those of stored sessions first: what was forked from these belongs to their threads."""
        stored = {path for path in files if await self._sink.stored(name_of(path))}
        return sorted(files, key=lambda path: path not in stored)

    def open(self, path: Path) -> File:
        """Return a file that is to be read from its beginning."""
        self.counts.files += 1
        return File(self._source.kind(path)(path), self._source.reader(path, self._homes))

    async def read(self, file: File, advance: Callable[[int], object]) -> None:
        """Read what is new in a file; its last runs stay open. `advance` is called with bytes."""
        broken, path = len(file.lines.broken), file.lines.path
        self._stored.clear()
        self._answered.clear()
        try:
            for line, size in file.lines.read():
                await self._line(file, line)
                advance(size)
        except OSError as error:  # the file is gone, belongs to another user, or has a form that we don't read
            self.counts.unread.append(f"{path} ({error.strerror})")
        self.counts.broken += [f"{path}:{number}" for number in file.lines.broken[broken:]]
        for running in file.running.values():
            await self._release(running, file.reader.dialect)
            running.paused = True

    async def settle(self, file: File, now: int) -> None:
        """End runs whose last event is OVER_AFTER old; later events begin a run that continues it. `now`: epoch ms."""
        for running in file.running.values():
            part = running.part
            if part.output is not None and running.at < now - OVER_AFTER:
                await part.output.end("disconnected", at=running.at)  # the stream's own end counts, if it has one
                part.output, part.known = None, running.index - part.first

    def close(self, file: File) -> None:
        """Leave the runs of a file that is read no further."""
        for running in file.running.values():
            self._left(running)

    async def _line(self, file: File, line: Fields) -> None:
        try:
            steps = list(file.reader.read(line))
        except MALFORMED:
            file.lines.broken.append(file.lines.here)
            return
        for step in steps:
            await self._take(file, step)

    async def _take(self, file: File, step: RunOpened | RunEvent | RunOver) -> None:
        if isinstance(step, RunOpened):
            file.running[step.chain] = await self._begun(step)
            return
        running = file.running.get(step.chain)
        if running is None:
            return
        if isinstance(step, RunEvent):
            if running.answered:
                running.held.append(step)
            else:
                await self._send(running, step, file.reader.dialect)
            return
        await self._release(running, file.reader.dialect)
        del file.running[step.chain]
        if running.part.output is not None and not await self._is_closed(running):
            await running.part.output.end(step.end, at=running.at)
            running.part.output = None
        self._left(running)

    async def _begun(self, opened: RunOpened) -> Running:
        before = opened.info.get("continues")
        if before is not None:
            opened.info["continues"] = self._newest.get((opened.thread, before), before)
        if opened.thread not in self._stored:
            self._stored[opened.thread] = await self._sink.stored(opened.thread)
        stored = self._stored[opened.thread]
        answered = () if opened.run in stored else await self._answers(opened)
        return Running(opened, stored, Part(opened, 0, stored.get(opened.run)), answered)

    async def _answers(self, opened: RunOpened) -> Sequence[int]:
        """Return when responses of the thread came from the program; those of a sub-agent are in its parent's."""
        thread = opened.info.get("parent_thread_id") or opened.thread
        if thread not in self._answered:
            self._answered[thread] = await self._sink.answered(thread)
        return self._answered[thread]

    async def _release(self, running: Running, dialect: str) -> None:
        """Hand on what is held of a run, unless it is stored: then none of it is handed on."""
        held, running.held = running.held, []
        if held and any(held[0].at <= at <= held[-1].at + PRINTED_WITHIN for at in running.answered):
            running.part.known = sys.maxsize
        running.answered = ()
        for event in held:
            await self._send(running, event, dialect)

    async def _send(self, running: Running, step: RunEvent, dialect: str) -> None:
        index, running.index = running.index, running.index + 1
        running.at = step.at
        if running.part.output is not None and await self._is_closed(running):
            self._next_part(running, index)
        while running.part.known is not None and index >= running.part.first + running.part.known:
            self._next_part(running, index)
        part = running.part
        running.paused, running.ended = False, step.ends
        if part.known is not None:
            return
        if part.output is None:
            part.output = self._run(part.opened, dialect, index - part.first)
            self.counts.new, running.new = self.counts.new + 1, True
        running.sent_at = time.monotonic()
        try:
            await part.output.send(step.event, at=step.at)
        except InvalidRecord:  # too large
            self.counts.cut += 1
            slim: Fields = {key: value for key, value in step.event.items() if key != "tool_use_result"}
            await part.output.send(fitted(slim), at=step.at)

    def _run(self, opened: RunOpened, dialect: str, first_seq: int) -> Output:
        try:
            return self._sink.run(opened, dialect, first_seq)
        except InvalidRecord:  # the words that began it are too large
            self.counts.cut += 1
            return self._sink.run(opened._replace(info=fitted(opened.info)), dialect, first_seq)

    async def _is_closed(self, running: Running) -> bool:
        """Return True if a run that was read up to its file's end is over by now, for the worker."""
        if not running.paused:
            return False
        if running.ended and time.monotonic() - running.sent_at > self._settled:
            return True
        return running.part.opened.run in await self._sink.stored(running.opened.thread)

    def _next_part(self, running: Running, index: int) -> None:
        opened, before = running.opened, running.part
        _leave(before)
        name = f"{opened.run}+{index}"
        info = {key: value for key, value in opened.info.items() if key not in ("replaces", "request")}
        info["continues"] = before.opened.run
        running.part = Part(opened._replace(run=name, info=info), index, running.stored.get(name))
        self._newest[opened.thread, opened.run] = name

    def _left(self, running: Running) -> None:
        self.counts.known += running.part.known is not None and not running.new
        _leave(running.part)


def _leave(part: Part) -> None:
    if part.output is not None:
        part.output.leave()
