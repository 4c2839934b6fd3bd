"""The limit: read the events topic with aiokafka, parse each record with orjson, do nothing else.

python -m tests.bench.raw_reader BROKERS TOPIC EVENTS     -> {"events": …, "seconds": …, "cpu": …}
"""

import sys
import time

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer


async def read(brokers: str, topic: str, events: int) -> None:
    """Read `events` events, and print how long it took from the first fetch on."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        group_id=None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=1 << 20,
    )
    await consumer.start()
    loads = orjson.loads
    count, began, cpu = 0, 0.0, 0.0
    try:
        while count < events:
            fetched = await consumer.getmany(timeout_ms=500, max_records=5000)
            if fetched and not began:
                began, cpu = time.perf_counter(), time.process_time()
            for records in fetched.values():
                for record in records:
                    count += len(loads(record.value)["events"])
        done = {"events": count, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    finally:
        await consumer.stop()
    sys.stdout.write(orjson.dumps(done).decode() + "\n")


if __name__ == "__main__":
    uvloop.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3])))
