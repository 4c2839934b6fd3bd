"""Publishing runs from an agent worker: an object for the process, a context for each run.

    async with Publisher() as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

A run's events are numbered, dated, packed into records for at most 50 ms, and sent by an idempotent producer, or to a
gateway over HTTP if TURNMILL_PUBLISH_URL names one. Records go to a spool on disk if they are not confirmed within a
second, if no broker answers, or if memory is full. The spool is sent in order when the broker takes records again, in
this process or after the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from turnmill import environment
from turnmill.errors import BrokerError, CallerError, expectation
from turnmill.identity import thread_uuid
from turnmill.labels import parsed
from turnmill.limits import NAMED_CHARACTERS, TENANT_CHARACTERS
from turnmill.publish.counts import Counts, Report
from turnmill.publish.micro_batch import MicroBatch
from turnmill.publish.run import PublishedRun
from turnmill.wire import traceparent as w3c
from turnmill.wire.envelope import TOPIC
from turnmill.wire.registry import WIRES
from turnmill.wire.traceparent import current

if TYPE_CHECKING:  # modules that load aiokafka or pydantic are imported when something is published
    from turnmill.control.receiver import Control
    from turnmill.publish.delivery import Connect, Delivery, Producer
    from turnmill.publish.run_info import RunInfo
    from turnmill.publish.spool import Spool
    from turnmill.settings import ClientSettings

LINGER = 0.05  # seconds that an event waits for the next ones
FLUSH_TIMEOUT = 30.0  # seconds, on exit
KEEP_AFTER = 5.0  # seconds, on exit, after which unconfirmed records stay in the spool

log = logging.getLogger(__name__)


class Publisher:
    """The connection to the broker, or to the gateway, that all runs of a process share.

    With the spool, it is no error if no broker answers. Without (`spool=False`), that is a BrokerError at the start,
    `send` waits for a slow broker, and unconfirmed records at the end are a BrokerError, too.
    """

    def __init__(
        self,
        settings: ClientSettings | None = None,
        *,
        spool: bool = True,
        keep_after: float | None = None,
        topic: str = TOPIC,
    ) -> None:
        """Make a publisher; it connects in `async with`.

        Args:
            settings: By default read from the environment.
            spool: False: nothing is written to disk, and it is an error if no broker answers.
            keep_after: Seconds, on exit, after which unconfirmed records stay in the spool; by default 5.
            topic: The topic that `put` sends to, without the prefix of the settings; runs go to that of events.

        Raises:
            CallerError: The environment is wrong.
        """
        self._settings = environment.load_settings() if settings is None else settings
        self._spooled = spool
        self._topic = topic
        self._keep_after = keep_after
        self._spool: Spool | None = None
        self._closed: Delivery | None = None  # that of the block that has ended
        self._delivery: Delivery | None = None
        self._runs: set[PublishedRun] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._control: Control | None = None
        self.counts = Counts()

    async def __aenter__(self) -> Self:
        """Connect. Raises CallerError for wrong settings; without a spool, BrokerError if no broker answers."""
        from turnmill.publish.delivery import Delivery  # noqa: PLC0415  # as above
        from turnmill.publish.spool import Spool  # noqa: PLC0415

        settings = self._settings
        connect, folder = _over_kafka(settings, self._topic) if settings.publish_url is None else _over_http(settings)
        self.counts = Counts()  # new ones: records that an earlier block left on disk are counted as adopted
        if self._spooled:
            self._spool = await asyncio.to_thread(Spool, settings.spool_folder / folder, settings.spool_bytes)
            self.counts.adopted += self._spool.adopted
        else:
            connect = partial(_given, await connect())
        drop = settings.spool_policy == "drop"
        self._delivery = Delivery(connect, settings.address, self.counts, self._spool, drop=drop)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._linger_is_over()
        # Concurrently with sending the rest: if the broker is away, both take some seconds.
        deaf = None if self._control is None else asyncio.ensure_future(self._control.close())
        delivery = self._closed = self.delivery
        self._delivery = None
        keep_after = KEEP_AFTER if self._keep_after is None else self._keep_after
        within = keep_after if self._spool else FLUSH_TIMEOUT
        left = await delivery.close(within)
        if deaf is not None:
            await deaf
        if self._spool and (kept := self.counts.unconfirmed - left):
            log.warning("%d records are in %s: the next publisher there sends them", kept, self._spool.folder)
        if not left:
            return
        why = delivery.failure or delivery.trouble or f"no answer for {within:.0f} s"
        message = (
            f"{self._settings.address} has not confirmed {left} record{'' if left == 1 else 's'}, which may be lost "
            f"({why}): `turnmill doctor` says what is wrong"
        )
        if error is not None:
            log.error(message)
        else:
            raise BrokerError(message)

    def report(self) -> Report:
        """Return the numbers of records by place; after the end, as they were then."""
        counts, delivery = self.counts, self._delivery or self._closed
        waiting = delivery.waiting if delivery else 0
        return Report(
            sent=counts.records,
            confirmed=counts.confirmed,
            waiting=waiting,
            spooled=counts.unconfirmed - waiting,
            dropped=counts.dropped,
            refused=counts.refused,
            adopted=counts.adopted,
            damaged=self._spool.damaged if self._spool else 0,
            trouble=(delivery.trouble or delivery.failure) if delivery else None,
        )

    def run(
        self,
        *,
        thread_id: str,
        agent_id: str,
        dialect: str,
        run_id: str | None = None,
        tenant: str | None = None,
        info: RunInfo | Mapping[str, Any] | None = None,
        max_events: int | None = None,
        first_seq: int = 0,
        traceparent: str | None = None,
        steers: bool = False,
    ) -> PublishedRun:
        """Return a run, to be used in `async with`.

        Args:
            thread_id: The conversation. An id that is no UUID is converted and kept as the thread's external id;
                over HTTP, the gateway converts it, since it knows the tenant.
            agent_id: The agent.
            dialect: The wire of its events, as `docs/dialects.md` names them.
            run_id: By default a new UUID.
            tenant: The tenant.
            info: Facts about the run, which are published in its first record.
            max_events: Most events in a record; by default only its size is bounded.
            first_seq: The number of the first event, if earlier events of the run were published before.
            traceparent: The span (W3C) that the run is a part of, by default OpenTelemetry's current one; a malformed
                one is left out.
            steers: Whether the program takes messages while the run goes on: it calls `run.steered()` between tools.

        Raises:
            CallerError: An argument is wrong.
            InvalidRecord: `info` is too large.
        """
        from pydantic import ValidationError  # noqa: PLC0415  # as above

        from turnmill.publish.run_info import RunInfo  # noqa: PLC0415

        for name, value in (("thread_id", thread_id), ("agent_id", agent_id)):
            if not isinstance(value, str) or not value:
                raise CallerError(f"{name} must be a string that is not empty, got {value!r:.80}")
        for name, value in (("thread_id", thread_id), ("run_id", run_id or ""), ("agent_id", agent_id)):
            if len(value) > NAMED_CHARACTERS:
                raise CallerError(f"{name} has {len(value):,} characters; at most {NAMED_CHARACTERS:,} are taken")
        if tenant and (not isinstance(tenant, str) or len(tenant) > TENANT_CHARACTERS):
            raise CallerError(f"tenant must be a string of at most {TENANT_CHARACTERS} characters, got {tenant!r:.80}")
        if dialect not in WIRES:
            raise CallerError(f"no dialect is called {dialect!r:.80}: choose one of {', '.join(WIRES)}")
        try:
            known = RunInfo.model_validate(info or {})
        except ValidationError as error:
            raise CallerError(f"info: {expectation(error.errors(include_url=False)[0])}") from error
        uuid, external_id = thread_uuid(thread_id, tenant)
        named = uuid if self._settings.publish_url is None else thread_id
        identity = {"thread_id": named, "run_id": run_id or str(uuid4()), "agent_id": agent_id, "dialect": dialect}
        if tenant:
            identity["tenant"] = tenant
        facts = {**parsed(self._settings.labels), **known.model_dump(exclude_none=True)}
        if external_id:
            facts.setdefault("external_id", external_id)
        span = w3c.parse(traceparent or facts.pop("traceparent", None) or current())
        if span is not None:
            facts["traceparent"] = span.text  # besides the header, since the spool does not keep headers
        batch = MicroBatch(identity, facts, max_events=max_events, first_seq=first_seq)
        parent = (known.parent_thread_id, known.parent_run_id) if known.parent_run_id else None
        run = PublishedRun(self, WIRES[dialect], batch, span, steers=steers, parent=parent)
        self._runs.add(run)
        self.counts.runs += 1
        if self.hears and self._delivery is not None:
            self._listen(run)
        return run

    @property
    def hears(self) -> bool:
        """Return True if its runs receive commands, as to stop."""
        return self._settings.control

    def _listen(self, run: PublishedRun) -> None:
        from turnmill.control.receiver import Control  # noqa: PLC0415  # only loaded if commands are wanted

        if self._control is None:
            self._control = Control(self._settings, self.delivery.connected)
        run.hear()
        self._control.begun(run)

    async def put(self, key: bytes, value: bytes) -> None:
        """Publish a finished envelope as it is (the caller has checked it); waits while too much is unconfirmed."""
        await self.delivery.room()
        self.delivery.put(key, value)

    async def flush(self, within: float = FLUSH_TIMEOUT) -> None:
        """Wait until all records sent so far are confirmed. Raises BrokerError after `within` seconds."""
        self._linger_is_over()
        if await self.delivery.drained(within):
            raise BrokerError(f"{self._settings.address} did not confirm all records within {within:.0f} s")

    async def kept(self, within: float = FLUSH_TIMEOUT) -> None:
        """Wait until all records sent so far are confirmed or in the spool. Raises BrokerError after `within` s."""
        self._linger_is_over()
        if not await self.delivery.kept(within):
            why = self.delivery.failure or self.delivery.trouble or f"no answer for {within:.0f} s"
            raise BrokerError(f"{self._settings.address} has not confirmed what was published: {why}")

    @property
    def delivery(self) -> Delivery:
        """The delivery of this publisher's records. Raises CallerError outside of `async with`."""
        if self._delivery is None:
            raise CallerError("the publisher is closed: use it inside `async with Publisher()`")
        return self._delivery

    def linger(self) -> None:
        """Flush all runs LINGER seconds from now, so that one request has the events of several runs."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER, self._linger_is_over)

    def _linger_is_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for run in self._runs:
            run.flush()

    def forget(self, run: PublishedRun) -> None:
        """Forget a run that is over."""
        self._runs.discard(run)
        if self._control is not None:
            self._control.over(run)


def _over_kafka(settings: ClientSettings, topic: str) -> tuple[Connect, str]:
    """Return a function that connects to Kafka, and the name of its spool. Raises CallerError for wrong settings."""
    from turnmill.kafka.client import client_options  # noqa: PLC0415  # as above
    from turnmill.kafka.producer import connected  # noqa: PLC0415

    client_options(settings)
    name = f"{settings.topic_prefix}.{topic}"
    return partial(connected, settings, name), name


def _over_http(settings: ClientSettings) -> tuple[Connect, str]:
    """Return the same for a gateway. It has a separate spool, whose records have the caller's names of threads."""
    from turnmill.credentials import secret  # noqa: PLC0415  # as above
    from turnmill.publish.gateway_producer import connected  # noqa: PLC0415

    secret(settings, "publish_token")
    return partial(connected, settings), f"gateway-{urlsplit(settings.address).netloc.replace(':', '_')}"


async def _given(producer: Producer) -> Producer:
    return producer
