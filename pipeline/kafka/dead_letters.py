"""Dead letters: make those of refused records, count, log, read them, and produce them again to their topics.

Key and value stay unchanged.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from pipeline.assembly.records import Record, Refused
from pipeline.kafka.outbox import Outgoing
from pipeline.kafka.reading import answering, records_of
from pipeline.observability import metrics as m
from pipeline.observability.logs import RepeatedWarning
from pipeline.observability.metrics import Metrics
from topics import catalog, dead_letter
from topics.catalog import DEAD_LETTERS
from topics.dead_letter import DeadLetter
from topics.json_text import object_of
from turnmill.clock import now_ms
from turnmill.errors import InvalidRecord
from turnmill.kafka.client import client_options
from turnmill.limits import RECORD_BYTES
from turnmill.settings import BrokerSettings
from turnmill.wire import traceparent
from turnmill.wire.envelope import loads
from turnmill.wire.traceparent import log_ids

LINES: Final = 20

MAX_REQUEST = DEAD_LETTERS.max_message_bytes

log = logging.getLogger(__name__)


def outgoing_letter(prefix: str, topic: str, partition: int, refused: Refused) -> Outgoing:
    """Return the dead letter of a record read from `topic` and `partition`; its partition number is the same."""
    record = refused.record
    redriven = dict(record.headers).get(f"{dead_letter.PREFIX}redriven") or b""
    times = int(redriven) if redriven.isdigit() and len(redriven) < 10 else 0
    source: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "key": record.key,
        "value": record.value,
    }
    letter = DeadLetter(reason=refused.reason, detail=refused.detail, time=now_ms(), redriven=times, **source)
    # A record with neither key nor value can't be sent.
    value = b"" if letter.key is None and letter.value is None else letter.value
    return Outgoing(catalog.DEAD_LETTERS.full_name(prefix), letter.key, value, partition, letter.headers())


def without_value(letter: Outgoing) -> Outgoing:
    """Return a dead letter without its value, for a letter that is too large for its topic.

    Its headers still say why it was refused, and where the record is.
    """
    return letter._replace(value=b"") if letter.value else letter


class DeadLetterLog:
    """Counts and logs records, or events of them, that become dead letters.

    The log has at most LINES lines a minute for each reason, and the number of those left out.
    """

    def __init__(self, topic: str, metrics: Metrics) -> None:
        self.topic = topic
        self._metrics = metrics
        self._warn = RepeatedWarning(log, LINES)

    def __call__(self, partition: int, refused: Refused) -> None:
        """Count and log a dead letter."""
        record = refused.record
        self._metrics.add(m.DEAD_LETTERS, reason=refused.reason.value)
        self._warn(
            refused.reason,
            "dead letter: %s %s/%d@%d: %s",
            *(refused.reason, self.topic, partition, record.offset, refused.detail),
            extra=lambda: _about(record),
        )


def _about(record: Record) -> dict[str, object]:
    """Return the log ids of the run of a record (AgentEvent or TurnRecord), those that can be read."""
    fields: dict[str, object] = {}
    if record.value is not None and len(record.value) <= RECORD_BYTES:
        with suppress(InvalidRecord):
            fields = object_of(loads(record.value))
    thread_id = fields.get("thread_id") or (record.key or b"").decode("utf-8", "replace") or None
    span = fields.get("traceparent") or traceparent.of_headers(record.headers)
    return log_ids(thread_id, fields.get("run_id"), span)


@dataclass(frozen=True, slots=True)
class Filed:
    """A dead letter and its place on the topic; `letter` is None for a record that another program wrote."""

    partition: int
    offset: int
    letter: DeadLetter | None

    @property
    def place(self) -> str:
        """PARTITION:OFFSET, the form of the command line."""
        return f"{self.partition}:{self.offset}"


async def filed_letters(settings: BrokerSettings) -> AsyncIterator[Filed]:
    """Yield all current records of the dead-letters topic, each partition in order; one batch in memory at a time."""
    async for record in records_of(settings, DEAD_LETTERS):
        yield Filed(record.partition, record.offset, _letter(record))


async def redrive(settings: BrokerSettings, letters: Iterable[DeadLetter]) -> int:
    """Produce the original keys and values to the topics where they were refused. Return their number, all confirmed.

    The assembler drops events that it already has as duplicates, so redriving twice does no harm.
    """
    async with answering(settings):
        producer = AIOKafkaProducer(
            **client_options(settings), acks="all", enable_idempotence=True, max_request_size=MAX_REQUEST
        )
        try:
            await producer.start()
            sent = [
                await producer.send(
                    letter.topic,
                    letter.value,
                    letter.key,
                    partition=letter.partition if letter.key is None else None,
                    headers=[(f"{dead_letter.PREFIX}redriven", b"%d" % (letter.redriven + 1))],
                )
                for letter in letters
            ]
            await asyncio.gather(*sent)
            return len(sent)
        finally:
            await producer.stop()


def _letter(record: Any) -> DeadLetter | None:
    try:
        return dead_letter.from_record(record.key, record.value, record.headers)
    except (KeyError, ValueError):
        return None
