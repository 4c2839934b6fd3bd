"""Faust's aiokafka transport, with our batch consumer, and a producer that loses nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import faust
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from faust.auth import OAuthCredentials
from faust.events import Event
from faust.transport.drivers import aiokafka as driver

from pipeline.kafka.outbox import Outgoing
from pipeline.worker.host.batch_consumer import BatchConsumer
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings


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
