"""Which client's partitioner put records where they are: from their keys and partitions. Pure.

A run is assembled in a partition, so all records of a thread should be in the same. Every hash of the key does that, as
long as all producers of a thread use the same; Java's is the one that most clients have, ours among them.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aiokafka.partitioner import murmur2

FEW: Final = 8  # keys, of which a partitioner can't be told
MOST: Final = 0.9  # of the keys, which a partitioner must have placed

Placing = Callable[[bytes, int], int]  # (key, number of partitions) -> partition


def java(key: bytes, partitions: int) -> int:
    """Return where Java's client puts a key, and kafkajs, franz-go, aiokafka and kafka-python."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def crc32(key: bytes, partitions: int) -> int:
    """Return where librdkafka puts a key."""
    return zlib.crc32(key) % partitions


def fnv1a(key: bytes, partitions: int) -> int:
    """Return where sarama puts a key: the remainder is that of a signed number, without its sign."""
    value = 0x811C9DC5
    for byte in key:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return (value if value < 2**31 else 2**32 - value) % partitions


def unmasked(key: bytes, partitions: int) -> int:
    """Return where @platformatic/kafka puts a key: murmur2 with the bit that Java leaves out."""
    return int((murmur2(key) & 0xFFFFFFFF) % partitions)


# (hash, whose default it is, how its producers get Java's)
OTHERS: Final[tuple[tuple[Placing, str, str], ...]] = (
    (crc32, "librdkafka's (CRC32)", "set `partitioner=murmur2_random`"),
    (fnv1a, "sarama's (FNV-1a)", "give sarama a murmur2 partitioner, kafka-go `kafka.Murmur2Balancer{}`"),
    (
        unmasked,
        "that of @platformatic/kafka (murmur2 without Java's mask)",
        "set `partitioner: compatibilityPartitioner`",
    ),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """What the keys of some records say.

    `keys`: how many there are; `scattered`: how many are in several partitions; `keyless`: records without a key;
    `by`: the row of OTHERS that placed the keys which are not where Java puts them; `elsewhere`: how many are not.
    """

    keys: int
    scattered: int
    keyless: int
    elsewhere: int
    by: tuple[Placing, str, str] | None


def placed(records: Iterable[tuple[bytes | None, int]], partitions: int) -> Placed:
    """Tell partitioners by (key, partition) of records."""
    places, keyless = defaultdict[bytes, set[int]](set), 0
    for key, partition in records:
        if key is None:
            keyless += 1
        else:
            places[key].add(partition)
    single = {key: min(found) for key, found in places.items() if len(found) == 1}
    elsewhere = [key for key, partition in single.items() if partition != java(key, partitions)]
    enough = max(FEW, MOST * len(elsewhere))
    by = next(
        (row for row in OTHERS if sum(row[0](key, partitions) == single[key] for key in elsewhere) >= enough), None
    )
    return Placed(len(places), len(places) - len(single), keyless, len(elsewhere), by)
