"""Reading a topic to its end, without a group: in place of `pipeline.kafka.reading`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from tests.simulation.broker import Broker, Entry
from turnmill.errors import BrokerError

AT_ONCE: Final = 20  # records


class Reading:
    """`reader` and `read`, as workers call them; a consumer is this object itself."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @asynccontextmanager
    async def reader(self, settings: Any, **options: Any) -> AsyncIterator[Reading]:
        try:
            yield self
        except KafkaError as error:
            raise BrokerError("the simulated broker does not answer") from error

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        await self.broker.answer()
        return {place: self.broker.log(place.topic, place.partition).begin for place in places}

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        await self.broker.answer()
        return {place: self.broker.log(place.topic, place.partition).end for place in places}

    async def read(
        self, consumer: Reading, spans: Mapping[TopicPartition, tuple[int, int]]
    ) -> AsyncGenerator[tuple[TopicPartition, list[Entry]]]:
        for place, (begin, end) in spans.items():
            log = self.broker.log(place.topic, place.partition)
            for at in range(begin, end, AT_ONCE):
                await self.broker.answer()
                found = log.read(at, min(AT_ONCE, end - at))
                if found.records:
                    yield place, [record for record in found.records if record.offset < end]
