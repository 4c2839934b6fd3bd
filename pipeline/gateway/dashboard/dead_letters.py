"""Dead letters over HTTP: the newest with their reasons, and the original bytes of each.

`GET /v1/ledger` is the loss ledger, which counts every run on the topic as stored, dead or open.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from pipeline.gateway.access.audit import read_out
from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Admin, TheAdmission
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import facts
from pipeline.gateway.state import Gateway, TheGateway
from pipeline.kafka.offsets import bounds, record_count
from pipeline.kafka.reading import read, reader
from pipeline.worker.repair.ledger import take_stock
from topics import dead_letter
from topics.catalog import DEAD_LETTERS, EVENTS
from turnmill.clock import now_ms
from turnmill.errors import BrokerError, InvalidRecord, Reason

PREVIEW_BYTES: Final = 4_000  # of an original that a list shows
FETCH_BYTES: Final = 262_144  # of one partition at a time
READ_TIMEOUT: Final = 10.0  # seconds for all reads of a request

router = APIRouter(prefix="/v1", tags=["status"])
MAX_RECORDS: Final = 200_000  # on the events topic; beyond that, use `turnmill doctor --ledger`


class Letter(BaseModel):
    """One refused record. Times in epoch ms; `preview`: the first bytes, with invalid UTF-8 replaced."""

    partition: int
    offset: int
    reason: Reason
    detail: str
    topic: Annotated[str, Field(description="Where it was read, with `from_partition` and `from_offset`.")]
    from_partition: int
    from_offset: int
    time: int
    redriven: int
    key: str | None
    size: int
    preview: str


class Letters(BaseModel):
    """The newest dead letters, newest first; `total`: number on the topic."""

    letters: list[Letter]
    total: int


@router.get("/dead-letters", summary="The newest dead letters")
@facts("refused")
async def newest(
    gateway: TheGateway,
    principal: Admin,
    limit: Annotated[int, Query(ge=1, le=500, description="Dead letters to return.")] = 100,
    reason: Annotated[Reason | None, Query(description="Of these, only those with this reason.")] = None,
) -> Letters:
    """List dead letters. For tokens without a tenant: a record that can't be read does not name its tenant."""
    _of_all(principal)
    ends = await bounds(gateway.settings, [DEAD_LETTERS])
    spans = {partition: (max(begin, end - limit), end) for partition, (begin, end) in ends.items()}
    letters: list[Letter] = []
    async with _reader(gateway) as consumer:
        async for _, records in read(consumer, spans):
            for record in records:
                letter = _letter(record)
                if letter is not None and reason in (None, letter.reason):
                    letters.append(letter)
    letters.sort(key=lambda shown: (-shown.time, shown.partition, -shown.offset))
    return Letters(letters=letters[:limit], total=sum(end - begin for begin, end in ends.values()))


@router.get(
    "/dead-letters/{partition}/{offset}",
    summary="The original bytes of a dead letter",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **documented("not-found")},
)
@facts("refused")
async def original(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Admin,
    partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
    offset: Annotated[int, Path(ge=0, le=2**63 - 1)],
) -> Response:
    """Return the original bytes as a download, so that no browser displays them."""
    _of_all(principal)
    topic_partition = TopicPartition(DEAD_LETTERS.full_name(gateway.settings.topic_prefix), partition)
    begin, end = (await bounds(gateway.settings, [DEAD_LETTERS])).get(topic_partition, (0, 0))
    if begin <= offset < end:
        async with _reader(gateway) as consumer:
            async for _, records in read(consumer, {topic_partition: (offset, offset + 1)}):
                read_out(admission, "dead-letter.read", f"{partition}:{offset}", None)
                name = f"dead-letter-{partition}-{offset}.bin"
                headers = {"Content-Disposition": f'attachment; filename="{name}"'}
                return Response(records[0].value or b"", headers=headers, media_type="application/octet-stream")
    raise Problem("not-found", f"no dead letter is at {partition}:{offset}: retention may have removed it")


def _of_all(principal: Principal, why: str = "dead letters are of no tenant") -> None:
    if principal.tenant is not None:
        raise Problem("forbidden", f"{why}: use a token without one")


def _letter(record: Any) -> Letter | None:
    try:
        letter = dead_letter.from_record(record.key, record.value, record.headers)
    except (KeyError, ValueError, InvalidRecord):
        return None  # a record that another program wrote
    value = letter.value or b""
    return Letter(
        **{name: getattr(letter, name) for name in ("reason", "detail", "topic", "time", "redriven")},
        partition=record.partition,
        offset=record.offset,
        from_partition=letter.partition,
        from_offset=letter.offset,
        key=None if letter.key is None else letter.key[:PREVIEW_BYTES].decode("utf-8", "replace"),
        size=len(value),
        preview=value[:PREVIEW_BYTES].decode("utf-8", "replace"),
    )


@asynccontextmanager
async def _reader(gateway: Gateway) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer for one request. Raises BrokerError where the block takes longer than READ_TIMEOUT."""
    try:
        async with (
            asyncio.timeout(READ_TIMEOUT),
            reader(gateway.settings, max_partition_fetch_bytes=FETCH_BYTES, fetch_max_wait_ms=100) as consumer,
        ):
            yield consumer
    except TimeoutError:
        raise BrokerError(f"dead letters could not be read within {READ_TIMEOUT:.0f} s: ask for fewer") from None


single_count = asyncio.Semaphore(1)


class Ledger(BaseModel):
    """The runs on the events topic by state: runs = stored + dead + open."""

    runs: int
    stored: int
    dead: Annotated[int, Field(description="Runs that were refused, and of which nothing is stored.")]
    open: Annotated[int, Field(description="Not stored yet.")]
    removed: Annotated[int, Field(description="Records that retention removed before they were read.")]
    oldest_open_ms: Annotated[int | None, Field(description="The longest silence of an open run.")]


@router.get("/ledger", summary="Take stock of all runs", responses=documented("conflict"))
@facts("refused")
async def ledger(gateway: TheGateway, principal: Admin) -> Ledger:
    """Count all runs. This reads the whole events topic, which takes a moment. For tokens without a tenant."""
    _of_all(principal, "the ledger is of all tenants")
    settings = gateway.settings
    records = await record_count(settings, EVENTS)
    if records > MAX_RECORDS:
        raise Problem("conflict", f"{records:,} records are too many to read here: use `turnmill doctor --ledger`")
    async with single_count:
        taken = await take_stock(settings, await gateway.store())
    now = now_ms()
    oldest = max((now - at for at in taken.open_runs.values()), default=None)
    counts = {"runs": taken.runs, "stored": taken.stored, "dead": taken.dead, "open": taken.open}
    return Ledger(**counts, removed=taken.removed, oldest_open_ms=oldest)
