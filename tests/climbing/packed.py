"""What travels packed, as the proxy and capture read it, and batches of Kafka: inputs are what is unpacked, and how."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import cramjam
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.climbing.cost import Target
from tests.climbing.topics import assemble, recorded, values
from turnmill.capture.exchange import Exchange
from turnmill.capture.passing import Call
from turnmill.capture.reading import read
from turnmill.kafka.pieces import Allowance
from turnmill.kafka.unpacking import screened
from turnmill.limits import BATCH_RECORDS, FETCHED_BYTES

PACK: Final = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: bytes(cramjam.brotli.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
REPEATED: Final = 2**24  # bytes, unpacked, of the largest body that is tried
Packed = tuple[str, bytes]


def packed(value: Any) -> Packed:
    """-> content-encoding, body. `repeat`: how often `again` stands between `head` and `tail`."""
    again = value["again"].encode("utf-8", "surrogatepass")
    count = min(abs(int(value["repeat"])), REPEATED // max(1, len(again)))
    body = value["head"].encode("utf-8", "surrogatepass") + again * count + value["tail"].encode()
    for name in value["encodings"]:
        body = PACK[name](body)
    return ", ".join(value["encodings"]), body


def capture(request: Packed) -> int:
    """Messages are no rows: they travel in one record, which has its own bound."""
    encodings, body = request
    reading = read(Call("openai", "openai-chat", "/v1/chat/completions", {"content-encoding": encodings}, body))
    reading.exchange.asked()
    return 0


def answer(response: Packed) -> int:
    """Nor are an answer's events."""
    encodings, body = response
    exchange = Exchange("openai-chat", {"stream": True, "messages": []})
    exchange.answered(200, {"content-type": "text/event-stream", "content-encoding": encodings})
    for _ in chain(exchange.data(body), exchange.finished()):
        pass
    return 0


def batch(value: Any) -> bytes:
    """-> a batch of Kafka: records, all of them so often, packed by one of its codecs."""
    builder = DefaultRecordBatchBuilder(2, value["codec"] % 4, 0, -1, -1, -1, 2**28)
    number = 0
    records = values(value["records"])
    for _ in range(min(abs(int(value["repeat"])), REPEATED // max(1, sum(map(len, records))))):
        for record in records:
            builder.append(number, 1, None, record, [])
            number += 1
            if number > 2 * BATCH_RECORDS:
                raise ValueError(number)
    return bytes(builder.build())


def fetch(data: bytes) -> int:
    fitting = MemoryRecords(screened(data, "events/0", Allowance(FETCHED_BYTES, BATCH_RECORDS)))
    found = []
    while fitting.has_next():
        one = fitting.next_batch()
        found += [record.value for record in one]
    return assemble(found)


def targets() -> Iterator[Target]:
    """Requests and answers of models, and batches."""
    size = lambda given: len(given[0]) + len(given[1])  # noqa: E731
    chat = {"head": '{"model":"m","messages":[', "again": '{"role":"user","content":"hi"},', "tail": "0]}", "repeat": 1}
    stream = {
        "head": "",
        "again": 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
        "tail": "data: [DONE]\n\n",
    }
    encoded = [["gzip"], ["br"], ["zstd"], ["gzip", "br"], []]
    yield Target("request to a model", [{**chat, "encodings": one} for one in encoded], packed, capture, size)
    yield Target(
        "answer of a model", [{**stream, "repeat": 1, "encodings": one} for one in encoded], packed, answer, size
    )
    runs = [recorded(dialect)[0] for dialect in ("vercel-ai", "openai-chat", "anthropic")]
    seeds = [{"codec": codec, "repeat": 1, "records": run} for codec in (0, 1, 3) for run in runs]
    yield Target("batch of events", seeds, batch, fetch, len)
