"""librdkafka.py BROKERS TOPIC FILE [NAME=VALUE …]: writes the records of FILE by confluent-kafka, with settings."""

import json
import sys
from pathlib import Path

from confluent_kafka import Producer  # type: ignore[import-not-found,unused-ignore]

brokers, topic, file, *settings = sys.argv[1:]
producer = Producer({"bootstrap.servers": brokers, **dict(setting.split("=", 1) for setting in settings)})
for line in Path(file).read_text().splitlines():
    record = json.loads(line)
    producer.produce(topic, key=record["key"], value=record["value"])
assert producer.flush(60) == 0
