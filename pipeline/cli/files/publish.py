"""`turnmill publish`: publishes recorded runs to the events topic, interleaved as by a fleet of agents."""

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from pipeline.cli.files.recordings import Envelopes, Recording, Stream, files_of, read
from pipeline.cli.options import dialect_option
from pipeline.cli.output import many
from pipeline.dialects.recognition import AUTO
from pipeline.settings import load
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid
from turnmill.publish.publisher import Publisher

PACE: Final = 50  # events/s of a run at --speed 1, since recordings have no times of events
MAX_SHOWN: Final = 20  # problems that the error names

Advance = Callable[[int], object]  # called with the number of events sent


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a publication: `bytes` of record values, `seconds` until the broker had confirmed all records."""

    runs: int
    events: int
    records: int
    bytes: int
    seconds: float

    @property
    def events_per_second(self) -> float:
        """Confirmed events a second."""
        return self.events / self.seconds if self.seconds else 0.0


class Speed(click.ParamType):
    """A factor greater than 0, or `max` (None)."""

    name = "N|max"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Return the factor."""
        if value == "max":
            return None
        try:
            factor = float(str(value))
        except ValueError:
            factor = 0.0
        if not 0 < factor < float("inf"):
            self.fail(f"{value!r} is neither `max` nor a number over 0", param, ctx)
        return factor


@click.command(short_help="Publish recorded runs to the events topic.")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path, exists=True, allow_dash=True)
)
@dialect_option
@click.option("--speed", type=Speed(), default="max", show_default=True, help="1: the pace of a model, as if said now.")
@click.option("--concurrency", type=click.IntRange(1), default=50, show_default=True, help="Threads at the same time.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of runs.")
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    help="Publish everything N times, each time under new ids, which are the same for the same command.",
)
@click.option("--batch", type=click.IntRange(1), default=20, show_default=True, help="Maximum events per record.")
@click.option("--thread", "thread_id", help="The conversation's id, instead of the file's own.")
@click.option("--agent", "agent_id", help="The agent's id, instead of the file's own.")
@click.option("--run", "run_id", help="The run's id, for a single file.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object.")
def publish(
    paths: Sequence[Path],
    dialect: str,
    speed: float | None,
    concurrency: int,
    limit: int | None,
    repeat: int,
    batch: int,
    *,
    as_json: bool,
    **overrides: str | None,
) -> None:
    """Publish recorded runs: files, folders of them (*.sse, *.jsonl, *.ndjson), or - for standard input.

    A file is one run's native stream (SSE or JSON lines). FILE.run.json beside it may hold its context: dialect,
    thread_id, run_id, agent_id, agent_name, model_name, provider_name, started_at, request, tenant, end; missing ids
    are generated. JSON lines of envelopes ("v": 1) are published as they are.

    All files are checked before anything is published; a file that isn't of --dialect is an error (exit 2).
    Dialects that were recognised by the first events are reported on stderr.
    """
    settings = load()
    named = None if dialect == AUTO else dialect
    recordings, warnings = _read_all(paths, named, {key: text for key, text in overrides.items() if text})
    for warning in warnings:
        click.echo(f"turnmill: {warning}", err=True)
    if overrides["run_id"] and len(recordings) > 1:
        raise CallerError(f"--run names one run, and {len(recordings)} are given: leave it out")
    chosen = list(islice(repeated(recordings, repeat, same_thread=bool(overrides["thread_id"])), limit))
    total = sum(recording.size for recording in chosen)
    with _bar(total) as advance:
        summary = asyncio.run(publish_all(Publisher(settings, spool=False), chosen, speed, concurrency, batch, advance))
    if as_json:
        rate = round(summary.events_per_second, 1)
        click.echo(json.dumps({**dataclasses.asdict(summary), "events_per_second": rate}))
        return
    click.echo(
        f"{many(summary.runs, 'run')}, {many(summary.events, 'event')} in {many(summary.records, 'record')} "
        f"({summary.bytes:,} bytes) in {summary.seconds:.1f} s: {summary.events_per_second:,.0f} events/s"
    )
    if len(chosen) == 1:
        name = chosen[0].thread_id
        tenant = chosen[0].tenant if isinstance(chosen[0], Stream) else None
        # The gateway derives the id, since it knows the tenant.
        click.echo(f"thread {thread_uuid(name, tenant)[0] if settings.publish_url is None else name}")


@contextmanager
def _bar(total: int) -> Iterator[Advance]:
    """Yield a function that moves a progress bar; on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=total, label="publishing", show_pos=True, file=sys.stderr) as bar:
        yield bar.update


def repeated(recordings: Sequence[Recording], times: int, *, same_thread: bool) -> Iterator[Recording]:
    """Yield the recordings `times` times, under new ids after the first time."""
    yield from recordings
    for number in range(2, times + 1):
        for recording in recordings:
            yield recording.copy(number, same_thread=same_thread)


async def publish_all(
    publisher: Publisher,
    recordings: Sequence[Recording],
    speed: float | None,
    concurrency: int,
    batch: int,
    advance: Advance,
) -> Summary:
    """Publish `concurrency` threads at a time, the runs of each in the order of their starts.

    `speed` None: without pauses, at the times at which they were recorded.
    """
    threads: dict[str, list[Recording]] = {}
    for recording in recordings:
        threads.setdefault(recording.thread_id, []).append(recording)
    waiting = iter(threads.values())

    async def next_threads() -> None:
        for runs in waiting:
            for run in sorted(runs, key=lambda run: run.started or 0):
                if isinstance(run, Stream):
                    await _publish_stream(publisher, run, speed, batch, advance)
                else:
                    await _publish_envelopes(publisher, run, speed, advance)

    async with publisher:
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(threads))):
                    group.create_task(next_threads())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        await publisher.flush()
        seconds = time.monotonic() - began
    counts = publisher.counts
    return Summary(counts.runs, counts.events, counts.records, counts.bytes, round(seconds, 3))


async def _publish_stream(
    publisher: Publisher, stream: Stream, speed: float | None, batch: int, advance: Advance
) -> None:
    run = publisher.run(
        thread_id=stream.thread_id,
        agent_id=stream.agent_id,
        dialect=stream.dialect,
        run_id=stream.run_id,
        tenant=stream.tenant,
        info=_undated(stream.info) if speed else stream.info,
        max_events=batch,
    )
    pace = _Pace(speed)
    # With a speed, events get the times at which they are sent; else those of the recording, or all the same time.
    start = None if speed else stream.started
    at = None if speed else now_ms()
    async with run:
        for number, event in enumerate(stream.events):
            elapsed = number * 1000 // PACE
            at = at if start is None else start + elapsed
            await (pace.reach(elapsed) if speed else _turn(number, batch))
            await run.send(_undated(event) if speed else event, at=at)
            advance(1)
        await run.end(stream.end, at=at)


def _undated(value: Any) -> Any:
    """Return JSON in which nothing says when it was recorded."""
    if isinstance(value, list):
        return list(map(_undated, value))
    if not isinstance(value, dict):
        return value
    return {key: _undated(member) for key, member in value.items() if key not in ("started_at", "timestamp")}


async def _publish_envelopes(publisher: Publisher, recording: Envelopes, speed: float | None, advance: Advance) -> None:
    pace, first = _Pace(speed), recording.started
    for number, (ts, value) in enumerate(recording.records):
        await (pace.reach(ts - first) if speed else _turn(number, 1))
        await publisher.put(recording.thread_id.encode(), value)
    advance(recording.size)
    publisher.counts.runs += recording.runs
    publisher.counts.events += recording.size


async def _turn(number: int, batch: int) -> None:
    """Yield to the other runs after each record."""
    if number % batch == 0:
        await asyncio.sleep(0)


class _Pace:
    """Plays a recording's clock at `speed` times its pace."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed or 1.0
        self._began = time.monotonic()

    async def reach(self, elapsed_ms: int) -> None:
        """Wait until `elapsed_ms` of the recording have passed since its start."""
        left = self._began + elapsed_ms / 1000 / self._speed - time.monotonic()
        await asyncio.sleep(max(0.0, left))


def _read_all(
    paths: Sequence[Path], dialect: str | None, overrides: dict[str, str]
) -> tuple[list[Recording], list[str]]:
    recordings: list[Recording] = []
    problems: list[str] = []
    warnings: list[str] = []
    for file in files_of(paths):
        contents = read(file, dialect, overrides)
        recordings += contents.recordings
        problems += contents.problems
        warnings += contents.warnings
    if problems:
        more = [f"and {len(problems) - MAX_SHOWN} more"] if len(problems) > MAX_SHOWN else []
        raise CallerError("\n".join(["nothing was published:", *problems[:MAX_SHOWN], *more]))
    return recordings, warnings
