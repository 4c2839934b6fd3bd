"""The state of the gateway and of the pipeline behind it, probes, metrics, and how long the event loop is blocked."""

import asyncio
import time
from typing import Annotated, Final

from fastapi import APIRouter, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from pipeline.gateway.access.security import Admission, Reader
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.state import OpenStore, Service, TheGateway, provided
from pipeline.kafka.offsets import group_lag, record_count
from pipeline.observability import metrics as m
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.threads.summaries import Counts
from pipeline.worker.host.roles import default_roles
from topics.catalog import DEAD_LETTERS
from turnmill.clock import now_ms
from turnmill.errors import TurnmillError

CHECK_INTERVAL: Final = 0.05  # seconds between two checks
MIN_BLOCK: Final = 0.01  # seconds; shorter blocks are not counted
FRESH_SECONDS: Final = 2.0  # seconds for which the broker's answer is reused: many dashboards ask at the same time
PATIENCE: Final = 1.0  # seconds that a caller waits for a count
REST: Final = 50  # a count that took n seconds is the newest for 50 n: counting takes 2 % of the time at most
router = APIRouter(tags=["status"])


class LoopWatch(Service):
    """Observes each block of the event loop of more than MIN_BLOCK seconds."""

    def __init__(self, metrics: m.Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to check every CHECK_INTERVAL seconds, in the running loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + CHECK_INTERVAL, self._look, loop.time() + CHECK_INTERVAL, loop)

    async def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - due
        if late > MIN_BLOCK:
            self._metrics.observe(m.LOOP_HELD, late)
        self.start()


class PartitionPlace(BaseModel):
    """A consumer group's offsets in a partition; `committed` is null if it never committed."""

    partition: int
    committed: int | None
    end: int
    lag: int


class RoleLag(BaseModel):
    """A role's lag."""

    role: str
    group: str
    topic: str
    lag: int
    partitions: list[PartitionPlace]


class BrokerStatus(Service):
    """Lag and dead letters. Callers within FRESH_SECONDS share one request to the broker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._found: tuple[float, tuple[list[RoleLag], int]] | None = None

    async def get(self) -> tuple[list[RoleLag], int]:
        """Return the lag of each role, and the number of dead letters. Raises BrokerError."""
        async with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > FRESH_SECONDS:
                self._found = (time.monotonic(), await _broker(self._settings))
            return self._found[1]


async def _broker(settings: Settings) -> tuple[list[RoleLag], int]:
    running = default_roles(settings)
    lags = await asyncio.gather(*(group_lag(settings, role.group(settings), [role.topic]) for role in running))
    roles = [
        RoleLag(
            role=role.name,
            group=role.group(settings),
            topic=role.topic.full_name(settings.topic_prefix),
            lag=sum(row.lag for row in rows),
            partitions=[PartitionPlace.model_validate(row, from_attributes=True) for row in rows],
        )
        for role, rows in zip(running, lags, strict=True)
    ]
    return roles, await record_count(settings, DEAD_LETTERS)


class StoreCounts(Service):
    """The newest count of a store's rows, which all callers share. It is rare, since a count reads all turns."""

    def __init__(self, store: OpenStore) -> None:
        """Prepare counting; `store` opens the store."""
        self._store = store
        self._counting: asyncio.Task[None] | None = None
        self._found: Counts | None = None
        self._failed: StoreError | None = None
        self._rested = 0.0

    async def get(self) -> Counts | None:
        """Return the newest numbers; None if the first count takes longer than PATIENCE. Raises StoreError.

        They are older than the time that it takes to count, by at most REST times as much.
        """
        if self._counting is None and time.monotonic() >= self._rested:
            self._counting = asyncio.create_task(self._count(), name="store counts")
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=PATIENCE)
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        return self._found

    async def _count(self) -> None:
        begun = time.monotonic()
        try:
            self._found, self._failed = await count_rows(await self._store()), None
            ended = time.monotonic()
            self._rested = ended + REST * (ended - begun)
        except StoreError as error:
            self._failed = error
        finally:
            self._counting = None

    async def close(self) -> None:
        """End a count in progress."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])


class Pipe(BaseModel):
    """The pipeline behind the gateway. A value that can't be read now is null; `problems` says why.

    `store` is also null while the first count of a large store takes long. It is counted rarely, for all callers.
    """

    time: int
    roles: list[RoleLag] | None
    dead_letters: int | None
    store: Counts | None
    problems: list[str]
    dev: bool = Field(False, description="The gateway belongs to `turnmill dev`; its worker may be killed.")


class Health(BaseModel):
    """`status` is `ok` or `failing`, for `reasons`."""

    status: str
    reasons: list[str]
    home: str | None = Field(None, description="Its TURNMILL_HOME, for this machine's users: while it has no tokens.")


@router.get("/v1/status", summary="Lag, dead letters, and counts of the store")
async def status(
    gateway: TheGateway,
    broker: Annotated[BrokerStatus, provided(BrokerStatus)],
    counts: Annotated[StoreCounts, provided(StoreCounts)],
    principal: Reader,
) -> Pipe:
    """Return the state of the pipeline for all tenants together. Tokens with a tenant get null for all values."""
    answer = Pipe(time=now_ms(), roles=None, dead_letters=None, store=None, problems=[], dev=gateway.dev is not None)
    if principal.tenant is not None:
        return answer
    try:
        answer.roles, answer.dead_letters = await broker.get()
    except TurnmillError as error:
        answer.problems.append(str(error))
    try:
        answer.store = await counts.get()
    except TurnmillError as error:
        answer.problems.append(str(error))
    return answer


@router.get("/livez", summary="Does the process answer?", response_model_exclude_none=True)
async def livez(gateway: TheGateway) -> Health:
    """Answer a liveness probe: always 200. Broker and store are not checked: a restart would not mend them."""
    is_open = gateway.service(Admission).authenticator.open
    return Health(status="ok", reasons=[], home=str(gateway.settings.home.absolute()) if is_open else None)


@router.get(
    "/readyz",
    summary="Can it do its work now?",
    responses={503: {"description": "It can't; `reasons` says why", "model": Health}},
)
async def readyz(gateway: TheGateway) -> JSONResponse:
    """Answer a readiness probe: 200 while broker and store are reachable, else 503 with the reasons."""
    reasons = []
    for connect in (gateway.publisher, gateway.store):
        try:
            await connect()
        except TurnmillError as error:
            reasons.append(str(error))
    health = Health(status="failing" if reasons else "ok", reasons=reasons)
    return JSONResponse(health.model_dump(exclude_none=True), 503 if reasons else 200)


@router.get("/metrics", summary="Metrics", response_class=Response)
async def metrics(gateway: TheGateway, runs: Annotated[RunWatch, provided(RunWatch)], request: Request) -> Response:
    """Return metrics in Prometheus or OpenMetrics text. They name routes and statuses, no tenants or threads."""
    runs.count()
    encode, content_type = choose_encoder(", ".join(request.headers.getlist("accept")))
    data = await asyncio.to_thread(encode, gateway.metrics.registry)
    return Response(data, headers={"Content-Type": content_type})
