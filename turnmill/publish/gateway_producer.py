"""A producer that sends records to a gateway: batches over HTTP, in turn, so that they stay in order.

    POST /v1/records, application/x-ndjson: a record a line, as `turnmill.wire.envelope` describes it, except that
    `thread_id` may be any name. -> {"records": 2, "refusals": [{"line": 1, "reason": "too_large", "detail": "…"}]}

The gateway answers when all records are safe. Only the token determines the tenant of the records.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from turnmill.errors import BrokerError
from turnmill.gateway_call import client, detail_of, library
from turnmill.limits import REFUSALS
from turnmill.settings import PREFIX, ClientSettings
from turnmill.wire.envelope import Headers

if TYPE_CHECKING:
    import httpx
else:
    httpx = library()

PATH: Final = "/v1/records"
BATCH_BYTES: Final = 1_000_000  # of a request; a larger record is sent by itself
QUEUED_BYTES: Final = 4_000_000  # records that wait for a request
BATCH_INTERVAL: Final = 0.1  # seconds between the starts of two requests: records that come meanwhile form a batch
CONNECT_TIMEOUT: Final = 10.0  # seconds
ANSWER_TIMEOUT: Final = 60.0  # seconds; long, since the gateway waits until the broker has confirmed


class RecordRefused(Exception):
    """The gateway refuses this record for good."""


@dataclass(frozen=True, slots=True)
class QueuedRecord:
    """A record that is not part of a request yet."""

    value: bytes
    future: asyncio.Future[None]


class GatewayProducer:
    """One connection to a gateway; see `turnmill.publish.delivery`."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._waiting: deque[QueuedRecord] = deque()
        self._bytes = 0  # in _waiting
        self._more = asyncio.Event()
        self._less = asyncio.Event()
        self._failure: BrokerError | None = None
        self._task = asyncio.create_task(self._post_all(), name="gateway producer")

    async def send(self, key: bytes, value: bytes, headers: Headers | None) -> asyncio.Future[Any]:
        """Queue a record; wait while too many are queued. Key and headers aren't sent: the record contains the same."""
        while self._bytes > QUEUED_BYTES and self._failure is None:
            self._less.clear()
            await self._less.wait()
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(QueuedRecord(value, future))
        self._bytes += len(value)
        self._more.set()
        return future

    def refuses(self, error: BaseException) -> bool:
        """Return True if the gateway refused the record."""
        return isinstance(error, RecordRefused)

    async def close(self) -> None:
        """Abandon the records that are under way, and disconnect."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._fail(BrokerError(f"the connection to {self._url} was given up"), [])
        await self._http.aclose()

    async def _post_all(self) -> None:
        """Post batch after batch until a request fails; after that, no more records are accepted."""
        loop = asyncio.get_running_loop()
        while self._failure is None:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            began = loop.time()
            batch = self._batch()
            try:
                refusals = await post(self._http, self._url, [record.value for record in batch])
            except RecordRefused as error:  # the batch as a whole
                refusals = dict.fromkeys(range(len(batch)), str(error))
            except BrokerError as error:
                self._fail(error, batch)
                return
            except asyncio.CancelledError:
                self._fail(BrokerError(f"a request to {self._url} was given up"), batch)
                raise
            for number, record in enumerate(batch):
                if record.future.done():
                    continue
                if number in refusals:
                    record.future.set_exception(RecordRefused(refusals[number]))
                else:
                    record.future.set_result(None)
            await asyncio.sleep(max(0.0, began + BATCH_INTERVAL - loop.time()))

    def _batch(self) -> list[QueuedRecord]:
        """Return at least one record, and at most as many as a request may have even if all of them are refused."""
        batch: list[QueuedRecord] = []
        size = 0
        while self._waiting and (
            not batch or (len(batch) < REFUSALS and size + len(self._waiting[0].value) <= BATCH_BYTES)
        ):
            batch.append(self._waiting.popleft())
            size += len(batch[-1].value)
        self._bytes -= size
        self._less.set()
        return batch

    def _fail(self, error: BrokerError, batch: list[QueuedRecord]) -> None:
        self._failure = self._failure or error
        for record in (*batch, *self._waiting):
            if not record.future.done():
                record.future.set_exception(error)
                record.future.exception()  # mark as retrieved: maybe nobody awaits it, and asyncio would warn
        self._waiting.clear()
        self._less.set()


async def connected(settings: ClientSettings) -> GatewayProducer:
    """Return a producer for the gateway of TURNMILL_PUBLISH_URL.

    Raises BrokerError where it doesn't answer or refuses us; CallerError for a token or certificates that can't be
    read.
    """
    assert settings.publish_url is not None  # the caller has checked
    http = client(settings, httpx.Timeout(ANSWER_TIMEOUT, connect=CONNECT_TIMEOUT), by_proxies=True)
    try:
        await post(http, settings.publish_url, [])
    except BaseException:
        await http.aclose()
        raise
    return GatewayProducer(http, settings.publish_url)


async def post(http: httpx.AsyncClient, url: str, records: list[bytes]) -> dict[int, str]:
    """Send records; return the refused ones: index in the list -> reason.

    Raises BrokerError if it is not known whether the gateway has taken them, RecordRefused if it refuses the whole
    request as too large.
    """
    try:
        answer = await http.post(
            url + PATH, content=b"\n".join(records), headers={"Content-Type": "application/x-ndjson"}
        )
    except (httpx.HTTPError, OSError) as error:
        why = str(error) or type(error).__name__
        raise BrokerError(
            f"no gateway answers at {url} ({why}): start one (`turnmill gateway`), or set {PREFIX}PUBLISH_URL"
        ) from error
    if answer.status_code == 413 and records:
        raise RecordRefused(detail_of(answer))
    if answer.status_code in (401, 403):
        raise BrokerError(f"{url} refuses access: {detail_of(answer)}; set {PREFIX}PUBLISH_TOKEN")
    if answer.status_code == 404:
        raise BrokerError(f"{url} takes no records: is it a gateway of Turnmill, and as new as this client?")
    if answer.status_code != 200:
        raise BrokerError(f"{url} answers {answer.status_code}: {detail_of(answer)}")
    try:
        return {
            refusal["line"] - 1: f"{refusal['reason']}: {refusal['detail']}" for refusal in answer.json()["refusals"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerError(f"{url} gives no report on what it took: is it a gateway of Turnmill?") from error
