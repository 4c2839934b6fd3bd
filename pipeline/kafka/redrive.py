"""Read the dead letters, and produce them again to their topics. Raises BrokerError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer

from pipeline.kafka.reading import answering, records_of
from topics import dead_letter
from topics.catalog import DEAD_LETTERS
from topics.dead_letter import DeadLetter
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings

MAX_REQUEST = DEAD_LETTERS.max_message_bytes


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
