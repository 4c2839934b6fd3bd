"""Attacks by what a few bytes on the events topic unpack to, by somebody whose Kafka login may write there."""

from collections.abc import Awaitable, Callable
from functools import partial
from struct import Struct
from typing import Final

from aiokafka import codec
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint

from tests.attack.attack import Attack
from tests.attack.poison import record
from tests.attack.stage import BOUND, Stage, spoken
from tests.support.waiting import until
from topics.catalog import EVENTS
from turnmill.errors import Reason
from turnmill.wire.envelope import encode

HEADER: Final = Struct(">qiibIhiqqqhii")
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
THREAD: Final = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
PIECE: Final = 1 << 20
RUNS: Final = 120  # of 900 KB of empty lists each
SILENT: Final = 20.0  # seconds
Encode = Callable[[bytes], bytes]


def varint(value: int) -> bytes:
    out = bytearray()
    encode_varint(value, out.append)
    return bytes(out)


def batch_of(codec_number: int, packed: bytes, records: int) -> bytes:
    """A batch of format 2 around what is packed already."""
    fields = [0, HEADER.size - 12 + len(packed), -1, 2, 0, codec_number, records - 1, 1, 1, -1, -1, -1, records]
    fields[4] = calc_crc32c((HEADER.pack(*fields) + packed)[21:])
    return HEADER.pack(*fields) + packed


def bomb(codec_number: int, encode: Encode, size: int) -> bytes:
    """A batch of one record of so many zeros, which never exist here: packed pieces stand behind each other."""
    value = size // PIECE * PIECE
    behind_length = b"\0\0\0" + varint(-1) + varint(value)
    head = varint(len(behind_length) + value + 1) + behind_length
    return batch_of(codec_number, encode(head) + encode(bytes(PIECE)) * (size // PIECE) + encode(b"\0"), 1)


def crowd(codec_number: int, encode: Encode, records: int) -> bytes:
    """A batch of so many empty records."""
    each = [b"\0\0" + varint(number) + varint(-1) + varint(0) + b"\0" for number in range(records)]
    return batch_of(codec_number, encode(b"".join(varint(len(one)) + one for one in each)), records)


def packed(values: list[bytes]) -> bytes:
    """A batch of these values."""
    each = [b"\0\0" + varint(n) + varint(-1) + varint(len(value)) + value + b"\0" for n, value in enumerate(values)]
    return batch_of(ZSTD, codec.zstd_encode(b"".join(varint(len(one)) + one for one in each)), len(values))


async def put(stage: Stage, *batches: bytes) -> None:
    """Write batches as they are."""
    client = AIOKafkaClient(bootstrap_servers=stage.settings.broker_list)
    await client.bootstrap()
    try:
        topic = EVENTS.full_name(stage.settings.topic_prefix)
        await client.set_topics([topic])
        for one in batches:
            (broker,) = client.cluster.brokers()
            request = ProduceRequest(None, -1, 30_000, [(topic, [(0, one)])])
            answer = await client.send(broker.nodeId, request)
            [(_, [(_, error, *_)])] = answer.topics
            assert error == 0, f"the broker answers {error}"
    finally:
        await client.close()


async def lived_through(stage: Stage, *batches: bytes, letters: int) -> None:
    """Have a worker and a gateway read them, both anew, and find one dead letter for each that is refused."""
    stage.gateway.forget_peak()
    before = {letter.offset for letter in await stage.letters()}
    await put(stage, *batches)
    await stage.restart_worker()
    await stage.is_whole(await stage.speak())
    async with stage.another_gateway() as url:
        for at in (stage.url, url):
            for page in ("/metrics", "/v1/runs?status=open"):
                await answers(stage, f"{at}{page}")
    await stage.is_whole(await stage.speak())
    await stage.all_read()
    found = {one.offset: one for one in await stage.letters() if one.offset not in before}
    assert len(found) == letters, f"{len(found)} dead letters: {[one.detail for one in found.values()]}"
    for letter in found.values():
        assert letter.reason is Reason.TOO_LARGE, letter.detail
        whole = {len(letter.value or b"") == 19 << 20, *((letter.value or b"").endswith(one[61:]) for one in batches)}
        assert True in whole, letter.detail
    stage.alive()
    for name, program in (("worker", stage.worker), ("gateway", stage.gateway)):
        assert program.peak() < BOUND, f"the {name} took {program.peak() >> 20} MiB"


async def answers(stage: Stage, page: str) -> None:
    """Wait until a gateway has read what there is, and answers: before, it says 503."""
    said = ""

    async def whole() -> bool:
        nonlocal said
        answer = await stage.operator.get(page)
        said = answer.text
        return answer.status_code < 500

    await until(whole, lambda: f"{page}: {said}", 60)


async def gigabyte(stage: Stage, codec_number: int, encode: Encode) -> None:
    await lived_through(stage, bomb(codec_number, encode, 1_200_000_000), letters=1)


async def many_records(stage: Stage) -> None:
    await lived_through(stage, crowd(ZSTD, codec.zstd_encode, 1_500_000), letters=1)


async def just_below(stage: Stage) -> None:
    """Batches that are taken one by one, and are together more than a process may have."""
    one = bomb(ZSTD, codec.zstd_encode, 19 << 20)
    await lived_through(stage, *[one] * 40, letters=40)


async def empty_lists(stage: Stage) -> None:
    """A megabyte of `[],` takes 22 MB as objects; a gateway that shows it live keeps the newest records decoded.

    All the runs are silent, and so are over at about the same time, for a worker that has just read them from the state
    topic, where they are no larger than their bytes.
    """
    stage.gateway.forget_peak()
    said = await stage.speak()
    await stage.upload(stage.evil, THREAD, "first", spoken("x"))
    async with stage.evil.stream("GET", f"/v1/threads/{THREAD}/live") as live:
        assert live.status_code == 200, live.status_code
        for start in range(0, RUNS, 20):
            nothing = [{"type": "start"}, {"type": "data-x", "data": [[]] * 295_000}]
            await put(stage, packed([encode(record(nothing, run=f"r{start + n}", thread=THREAD)) for n in range(20)]))
        await stage.is_whole(said)
        await stage.all_read()
    assert stage.worker.peak() < BOUND, f"the worker took {stage.worker.peak() >> 20} MiB"
    await stage.restart_worker()

    async def stored() -> bool:
        threads = (await stage.operator.get("/v1/threads", params={"search": THREAD})).json()["threads"]
        return sum(line["turns"] for line in threads) > RUNS // 10

    await until(stored, lambda: "no turns of runs that are over", 120)
    stage.alive()
    for name, program in (("worker", stage.worker), ("gateway", stage.gateway)):
        assert program.peak() < BOUND, f"the {name} took {program.peak() >> 20} MiB"


def attack(name: str, tries: str, run: Callable[[Stage], Awaitable[None]], **settings: float) -> Attack:
    return Attack(name, tries, "end a worker or gateway, now or after a restart", run, settings)


ATTACKS: Final = (
    attack(
        "unpacks to a gigabyte, zstd",
        "38 KB on Kafka that unpack to 1.2 GB",
        partial(gigabyte, codec_number=ZSTD, encode=codec.zstd_encode),
    ),
    attack(
        "unpacks to a gigabyte, gzip",
        "1.2 MB on Kafka that unpack to 1.2 GB",
        partial(gigabyte, codec_number=GZIP, encode=codec.gzip_encode),
    ),
    attack("unpacks to many records", "one batch of 1.5 million empty records", many_records),
    attack(
        "unpacks to empty lists",
        "120 runs of 900 KB of empty lists that end at once, while somebody looks",
        empty_lists,
        idle_timeout=SILENT,
    ),
    attack("unpacks to as much as it may", "40 batches that unpack to 19 MiB each", just_below),
)
