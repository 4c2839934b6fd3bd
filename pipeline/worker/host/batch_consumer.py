"""Faust's consumer with batches, and with offsets that the stage owns.

Stock Faust hands out one record at a time, and commits what was acked, past turns in flight. Here a message is all that
one poll returned, and the stage decides what may be committed. Each override avoids one of Faust's traps; the comments
say which.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any

import faust
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition
from faust.auth import OAuthCredentials
from faust.events import Event
from faust.transport.consumer import ensure_TP
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from pipeline.kafka.outbox import Outgoing
from pipeline.worker.host.commits import Stage
from pipeline.worker.host.consumer_thread import BatchThread
from pipeline.worker.host.work import Batch
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings

log = logging.getLogger(__name__)

QUIESCE_TIMEOUT = 5.0
COMMIT_TIMEOUT = 10.0


class NothingRead(dict[TP, int | None]):
    """Faust's offsets read so far, always unknown.

    Faust drops batches that end before these offsets: the first of the batches read again, while an old one is still
    on its way. The stage would see the same hole twice, and skip it.
    """

    def __getitem__(self, tp: TP) -> None:
        return None


class BatchConsumer(driver.Consumer):  # type: ignore[misc]  # Faust has no types
    """One message per poll: `message.value` holds a Batch of each partition, since a message costs Faust two tasks."""

    logger = driver.logger

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read_offset = NothingRead()

    def _new_consumer_thread(self) -> BatchThread:
        return BatchThread(self, loop=self.loop, beacon=self.beacon)

    @property
    def stage(self) -> Stage:
        """The stage of this app."""
        return self.app.stage  # type: ignore[no-any-return]

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109  # Faust's signature
        """Fetch from the partitions that may be fetched now."""
        records, active = await self._wait_next_records(timeout)
        if not records or self.should_stop:
            return
        if not self.flow_active:  # fetched across a rebalance: seek back, as the stock consumer does
            await self._seek_back()
            return
        # aiokafka returns every partition when `active` became empty meanwhile, and records as they are when they were
        # fetched while the thread was waiting.
        polled = {
            tp: fetched if isinstance(fetched, Batch) else Batch.of(fetched)
            for tp, fetched in ((ensure_TP(raw), fetched) for raw, fetched in records.items())
            if fetched and tp in active
        }
        if polled:
            tp, batch = next(iter(polled.items()))
            unused = {"timestamp_type": None, "headers": (), "key": None, "checksum": None}
            whole = {"value": polled, "tp": tp, "generation_id": self.app.consumer_generation_id, **unused}
            yield tp, ConsumerMessage(tp.topic, tp.partition, batch.end - 1, 0.0, **whole)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: `Worker.stalled` watches progress. Faust's check fails for a partition without a position."""

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing: the queue before the agent is bounded, and its next `put` waits.

        The base class would take the partition out of the fetch under way, which would then wait for the others, up to
        a second, while it holds this one's records.
        """

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing: no partition was taken out."""

    async def _seek_back(self) -> None:
        try:
            await driver.Consumer.perform_seek(self)
        except Exception as error:  # the stage reads the resulting hole again
            log.debug("could not seek back: %r", error)

    # ---- which offset

    def ack(self, message: Any) -> bool:
        """Keep no offset: the base class would keep all of them."""
        if not message.acked:
            message.acked = True
            self._unacked_messages.discard(message)
        return True

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: every batch looks like a gap to the base class."""

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        if self._thread._consumer is None:  # noqa: SLF001  # the broker refused us: stopping must not raise again
            return iter(())
        return (
            tp
            for tp in self.assignment()
            if tp.topic == self.stage.topic and (topics is None or tp in topics or tp.topic in topics)
        )

    def _new_offset(self, tp: TP) -> int | None:
        return self.stage.committable(tp.partition)

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:  # noqa: FBT001, FBT002
        """Commit offsets that were chosen before; first make safe what they depend on."""
        began = time.monotonic()
        if not await self.stage.flush():
            return False
        done: bool = await super()._commit_offsets(offsets, start_new_transaction)
        if done:
            self.stage.committed(time.monotonic() - began)
        return done

    # ---- rebalance

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Make a last checkpoint, within a timeout; then forget the partitions."""
        self.stop_flow()
        self.app.flow_control.suspend()
        try:
            await asyncio.wait_for(self._last_checkpoint(), QUIESCE_TIMEOUT + COMMIT_TIMEOUT)
        except Exception as error:  # uncommitted records are read again
            log.warning("%s: no checkpoint before the rebalance: %r", self.stage.name, error)
        self.stage.dropped()
        await super().on_partitions_revoked(revoked)

    async def _last_checkpoint(self) -> None:
        await asyncio.wait_for(self.stage.quiesce(), QUIESCE_TIMEOUT)
        await self.force_commit()

    async def perform_seek(self) -> None:
        """Have the stage seek and build its state, in its own time.

        Faust would wait for that for `broker_request_timeout`, and then silently never resume the flow.
        """
        self.stage.assigned(self, self.app.consumer_generation_id)

    async def seek_to_starts(self) -> dict[int, int]:
        """See `Source`: seek to the committed offsets, or the beginning."""
        await super().perform_seek()
        mine = {tp for tp in self.assignment() if tp.topic == self.stage.topic}
        starts = {tp: self._committed_offset.get(tp) for tp in mine}
        ends = await self.highwaters(*(TopicPartition(tp.topic, tp.partition) for tp in mine))
        for tp, end in ends.items():  # committed of a topic that was deleted and made anew
            if (starts[ensure_TP(tp)] or 0) > end:
                starts[ensure_TP(tp)] = None
        fresh = [TopicPartition(tp.topic, tp.partition) for tp, offset in starts.items() if not offset]
        if fresh:  # the base class skips partitions whose committed offset is None or 0
            first = await self.earliest_offsets(*fresh)
            await self._thread.seek_to_beginning(*fresh)
            starts.update({ensure_TP(tp): offset for tp, offset in first.items()})
        return {tp.partition: offset or 0 for tp, offset in starts.items()}

    async def read_again(self, partition: int, offset: int) -> None:
        """See `Source`."""
        await self._thread.seek_wait({TopicPartition(self.stage.topic, partition): offset})

    def highwater_of(self, partition: int) -> int | None:
        """See `Source`."""
        try:
            return self._thread.highwater(TopicPartition(self.stage.topic, partition))  # type: ignore[no-any-return]
        except Exception:  # not assigned any more, or not started yet
            return None

    def last_poll_of(self, partition: int) -> int | None:
        """See `Source`."""
        try:
            consumer = self._thread._ensure_consumer()  # noqa: SLF001  # Faust passes only the highwater on
            return consumer.last_poll_timestamp(TopicPartition(self.stage.topic, partition))  # type: ignore[no-any-return]
        except Exception:  # as above
            return None

    async def on_stop(self) -> None:
        """Make the last checkpoint."""
        try:
            await asyncio.wait_for(self.stage.quiesce(), QUIESCE_TIMEOUT)
        except TimeoutError:
            log.warning("%s: stopped in the middle of a batch; it is read again", self.stage.name)
        await super().on_stop()  # this commits, after a flush


class LosslessProducer(driver.Producer):  # type: ignore[misc]  # Faust has no types
    """An idempotent producer that waits for all replicas; Faust's default does neither."""

    logger = driver.logger

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, Awaitable[object]]:
        """See `outbox.Producer`: one future for all records of a batch, not one for each."""
        producer = self._ensure_producer()
        batch, taken = producer.create_batch(), 0
        for record in records:
            size = DefaultRecordBatchBuilder.estimate_size_in_bytes(record.key, record.value, record.headers or [])
            if size > self.max_request_size:
                if not taken:
                    raise MessageSizeTooLargeError(f"{size} bytes; at most {self.max_request_size} are sent")
                break
            if batch.append(timestamp=None, key=record.key, value=record.value, headers=record.headers) is None:
                break
            taken += 1
        batch.close()
        return taken, await producer.send_batch(batch, topic, partition=partition)


class BatchTransport(driver.Transport):  # type: ignore[misc]  # Faust has no types
    """Faust's aiokafka transport with `BatchConsumer` and `LosslessProducer`."""

    Consumer = BatchConsumer
    Producer = LosslessProducer


def credentials(settings: BrokerSettings) -> Any:
    """Return the credentials for Faust; None: neither TLS nor a login. Raises CallerError."""
    options = client_options(settings)
    tls, tokens = options["ssl_context"], options["sasl_oauth_token_provider"]
    if not settings.speaks_sasl:
        return tls and faust.SSLCredentials(tls)
    if tokens is not None:
        return OAuthCredentials(oauth_cb=tokens, ssl_context=tls)
    return faust.SASLCredentials(
        username=options["sasl_plain_username"],
        password=options["sasl_plain_password"],
        mechanism=options["sasl_mechanism"],
        ssl_context=tls,
    )


def batch_topic(app: faust.App, name: str) -> Any:
    """Return a Faust topic whose events carry batches unchanged. It survives the clone that an agent makes."""
    topic = app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    async def decode(message: Any, *, propagate: bool = False) -> Event:
        return Event(app, message.key, message.value, None, message)

    clone = topic.clone

    def clone_with_decode(**options: Any) -> Any:
        copy = clone(**options)
        copy.decode = decode
        return copy

    topic.decode = decode
    topic.clone = clone_with_decode
    return topic
