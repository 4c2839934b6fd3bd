"""`GET /v1/figures/live`: the figures and open runs of the last minutes, and then of each second, as they come.

All readers share them; they are updated only while there are readers.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from heapq import nsmallest
from typing import Annotated, Any, Final

import orjson
from aiokafka import TopicPartition
from fastapi import APIRouter, Query, Response

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.access.security import Reader, Standing, Still
from pipeline.gateway.dashboard.figures import ANY, FIELDS, WINDOW_SECONDS, By, FiguresReading, Intake, Series, like
from pipeline.gateway.live.erased import Erased, TheErased
from pipeline.gateway.live.event_stream import STREAMED, EventStream, frame
from pipeline.gateway.live.follower import Follower, Offsets, Past
from pipeline.gateway.live.following import Live
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.routing import facts
from pipeline.gateway.state import Gateway, Service, provided
from topics.catalog import DEAD_LETTERS, EVENTS, TELEMETRY, TURNS
from turnmill.clock import now_ms

LINGER: Final = 60.0  # seconds for which it continues without readers
FIRST_RECORDS: Final = 3_000  # the most records of each partition that are read at the start
MAX_LAG: Final = 50_000  # records of lag beyond which a partition's records are skipped
CATCHING_UP: Final = 5.0  # seconds: older records mean that the tail is still catching up
TICK: Final = 0.5  # seconds
RECHECK_INTERVAL: Final = 5.0  # seconds between two checks that the caller's token is still valid
STREAM_SECONDS: Final = 3600.0  # seconds until a stream ends; the page opens it again
CATCH_UP_TIMEOUT: Final = 5.0  # seconds for which `follow=false` waits for the tail to read older records
REPEATED_SECONDS: Final = 5  # newest seconds that each message repeats, since their records may still arrive
MAX_RUNS: Final = 50  # open runs that are named
router = APIRouter(prefix="/v1/figures", tags=["status"])


class FiguresTail(Service):
    """Takes the records of live figures. `skipped`: number of records left out."""

    name = "live figures"
    topics = (EVENTS, TELEMETRY, TURNS, DEAD_LETTERS)
    runs: Final = "seen"

    def __init__(self, gateway: Gateway, follower: Follower, run_watch: RunWatch) -> None:
        self._prices = gateway.settings.price_list
        self._follower = follower
        self._run_watch = run_watch
        self.run_list = follower.runs
        self._names = {follower.name_of(topic): topic.name for topic in self.topics}
        self._leaving: asyncio.Task[None] | None = None
        self._watchers = 0
        self._late = 0.0  # time.monotonic() when the last late record was read
        self.intake = Intake(self._prices)
        self.skipped = 0

    @property
    def trouble(self) -> str | None:
        """The reason why there are no figures; None if there are."""
        return self._follower.trouble or (None if self._follower.has_joined(self) else "connecting")

    @property
    def catching_up(self) -> bool:
        """Return True while records from before the first reader came are still being read."""
        known = self._follower.has_joined(self) and self._follower.has_joined(self._run_watch)
        return not known or time.monotonic() < self._late + 1

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Follow during the block, and LINGER seconds longer."""
        self._stay()
        for listener in (self._run_watch, self):
            self._follower.listen(listener)
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._leaving = asyncio.create_task(self._leave(), name="live figures, unwatched")

    async def _leave(self) -> None:
        await asyncio.sleep(LINGER)
        await self._follower.leave(self)

    async def close(self) -> None:
        """Cancel the pending leave: the follower closes."""
        self._stay()

    def _stay(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()

    async def starts(self, past: Past) -> Offsets:
        """Begin anew, and return where the window begins."""
        self.intake, self.skipped = Intake(self._prices), 0
        for run in self._follower.runs:
            run.text = ""
        return await past.since(self.topics, WINDOW_SECONDS, FIRST_RECORDS)

    def take(self, partition: TopicPartition, records: Sequence[Any], behind: int) -> None:
        """Count records."""
        if self._follower.lags.get(partition, 0) > MAX_LAG:
            self.skipped += len(records)
        elif self._names[partition.topic] == EVENTS.name:
            for event in records:
                self.intake.event(event)
            if records and records[-1].at < (time.time() - CATCHING_UP) * 1000:
                self._late = time.monotonic()
        else:
            for record in records:
                self.intake.take(self._names[partition.topic], record.value, record.timestamp)


@router.get("/live", summary="Figures as they happen", response_class=Response, responses=STREAMED)
@facts("own", endless=True)
async def live(
    tail: Annotated[FiguresTail, provided(FiguresTail)],
    streams: Annotated[Live, provided(Live)],
    erased: TheErased,
    principal: Reader,
    still: Standing,
    by: Annotated[By, Query(description="What the figures are grouped by.")] = "total",
    model: Annotated[str | None, Query(max_length=200, description="Only this model.")] = None,
    agent: Annotated[str | None, Query(max_length=200, description="Only this agent, by id.")] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Only this tenant; empty: none.")] = None,
    follow: Annotated[bool, Query(description="Go on with new figures; else end after one whole message.")] = True,  # noqa: FBT002  # FastAPI passes it by name
) -> Response:
    """Stream server-sent events `figures`.

    Their data is `{"now", "whole", "fields", "groups", "rows", "open", "runs", "catching_up", "trouble", "skipped"}`.

    A row is [epoch second, number in `groups` or -1 for the others, …figures in the order of `fields`]; it replaces the
    row of the same second and group. A `whole` message, such as the first, has the last 15 minutes, any other the
    newest seconds. `open` is the number of open runs, `runs` lists those that began last; times in epoch ms.
    `catching_up`: earlier records are still being read.

    The stream ends when the token is no longer valid, and after an hour. Runs of deleted threads are left out.
    """
    only = Series(model or None, agent or None, principal.bounded(tenant))
    return EventStream(_frames(tail, streams, erased, by, only, still, follow=follow), streams.metrics)


async def _frames(
    tail: FiguresTail, streams: Live, erased: Erased, by: By, only: Series, still: Still, *, follow: bool
) -> AsyncGenerator[bytes]:
    whole = True
    asked, ends = time.monotonic(), time.monotonic() + STREAM_SECONDS
    async with tail.watched():
        left = 0 if follow else CATCH_UP_TIMEOUT
        while tail.catching_up and left > 0:
            await asyncio.sleep(TICK)
            left -= TICK
        intake, reading = tail.intake, FiguresReading(tail.intake.figures, by, only)
        while not streams.stopping and time.monotonic() < ends:
            if time.monotonic() - asked > RECHECK_INTERVAL:
                if not await still():
                    return
                asked = time.monotonic()
            late = tail.catching_up
            if intake is not tail.intake or whole:
                intake, reading, whole = tail.intake, FiguresReading(tail.intake.figures, by, only), True
            runs_seen = [run for run in tail.run_list if only == ANY or like(_series(run), only)]
            runs = nsmallest(MAX_RUNS, runs_seen, key=lambda run: (-run.started_at, run.key[1:]))
            gone = await erased.among([run.thread for run in runs])
            shown = [_shown(run) for run in runs if run.thread not in gone]
            of_runs = {"open": len(runs_seen) - len(runs) + len(shown), "runs": shown}
            yield frame(orjson.dumps(_frame(tail, reading, whole=whole) | of_runs), name="figures")
            if not follow:
                return
            whole = late
            await asyncio.sleep(TICK)


def _series(run: ListedRun) -> Series:
    return Series(run.model, run.agent_id, run.key.tenant)


def _shown(run: ListedRun) -> dict[str, Any]:
    names = ("agent_id", "agent_name", "model", "started_at", "last_at", "events", "text", "imported")
    return {**run.key._asdict(), **{name: getattr(run, name) for name in names}}


def _frame(tail: FiguresTail, reading: FiguresReading, *, whole: bool) -> dict[str, Any]:
    back = WINDOW_SECONDS if whole else REPEATED_SECONDS
    now = now_ms()
    return {
        "now": now,
        "whole": whole,
        "fields": FIELDS,
        "rows": reading.rows(now // 1000 - back + 1, now // 1000 + 1),
        "groups": reading.groups,
        "catching_up": tail.catching_up,
        "trouble": tail.trouble,
        "skipped": tail.skipped,
    }
