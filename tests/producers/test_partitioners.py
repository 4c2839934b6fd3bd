"""Where each client puts keys, as docs/records.md and `turnmill doctor` have it."""

import uuid
from collections import defaultdict
from pathlib import Path

import pytest

from pipeline.kafka.admin import apply_topics
from pipeline.kafka.partitioners import crc32, fnv1a, java, placed, unmasked
from pipeline.kafka.reading import records_of
from pipeline.settings import Settings
from tests.producers import clients
from topics.catalog import EVENTS

PARTITIONS = 6  # with a power of two the mask of Java changes nothing
KEYS = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(150)]
PLACES = {
    "java": java,
    "librdkafka": crc32,
    "librdkafka-murmur2": java,
    "rdkafka": crc32,
    "rdkafka-murmur2": java,
    "kafkajs": java,
    "platformatic": unmasked,
    "platformatic-compatible": java,
    "sarama": fnv1a,
    "sarama-java": java,
    "franz-go": java,
    "kafka-go": None,
    "kafka-go-murmur2": java,
    "kafka-go-hash": fnv1a,
    "kafka-go-crc32": crc32,
}


@pytest.mark.parametrize("client", PLACES)
async def test_a_client_puts_keys_where_its_partitioner_says(client: str, settings: Settings, tmp_path: Path) -> None:
    """Each key twice, in upper case, too: a partitioner takes its bytes."""
    settings = settings.model_copy(update={"partitions": PARTITIONS})
    await apply_topics(settings)
    records = [(key.upper() if number % 3 == 0 else key, "{}") for number, key in enumerate(KEYS)]
    clients.write(client, settings, EVENTS, [*records, *records[1:]], tmp_path)
    places = defaultdict[bytes, set[int]](set)
    async for record in records_of(settings, EVENTS):
        places[record.key].add(record.partition)
    told = placed(((key, place) for key, found in places.items() for place in found), PARTITIONS)
    places_by = PLACES[client]
    assert told.keys == len(KEYS)
    if places_by is None:
        assert told.scattered > len(KEYS) / 2
        return
    assert places == {key: {places_by(key, PARTITIONS)} for key in places}
    assert (told.elsewhere > 0) == (places_by is not java)
    assert (told.by[0] if told.by else java) is places_by
