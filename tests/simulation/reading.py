"""Reading a topic to its end, without a group: in place of `pipeline.kafka.reading`."""

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from tests.simulation.broker import Broker, Entry
from turnmill.errors import BrokerError

AT_ONCE: Final = 20  # records


class Reading:
    """`read_once`, as workers call it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def read_once(
        self, settings: Any, places: Collection[TopicPartition], **options: Any
    ) -> AsyncGenerator[tuple[TopicPartition, list[Entry]]]:
        try:
            await self.broker.answer()
            begins = {place: self.broker.log(place.topic, place.partition).begin for place in places}
            await self.broker.answer()
            ends = {place: self.broker.log(place.topic, place.partition).end for place in places}
            async for place, records in self._read({place: (begins[place], ends[place]) for place in places}):
                yield place, records
        except KafkaError as error:
            raise BrokerError("the simulated broker does not answer") from error

    async def _read(
        self, spans: Mapping[TopicPartition, tuple[int, int]]
    ) -> AsyncGenerator[tuple[TopicPartition, list[Entry]]]:
        for place, (begin, end) in spans.items():
            log = self.broker.log(place.topic, place.partition)
            for at in range(begin, end, AT_ONCE):
                await self.broker.answer()
                found = log.read(at, min(AT_ONCE, end - at))
                if found.records:
                    yield place, [record for record in found.records if record.offset < end]
