"""The order of a checkpoint, and what holds the floor. All interleavings: tests/property/test_checkpoint_model.py."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from pipeline.assembly import finishing as finishing_module
from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.kafka.dead_letters import outgoing_letter
from pipeline.kafka.outbox import Outgoing
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.turns.redaction import Redaction, TextRule
from pipeline.worker.assemble import checkpoint as checkpoint_module
from pipeline.worker.assemble import outgoing_results
from pipeline.worker.assemble import state_reads as state_reads_module
from pipeline.worker.assemble.checkpoint import CHECK_RECORDS, AssembleWork
from pipeline.worker.assemble.limits import assemble_settings, limits_of
from pipeline.worker.assemble.metrics import AssemblyMetrics
from tests.support.toy import START, THREAD, TOYS, Log, envelope, text
from topics import dead_letter, state, turn_record
from topics.catalog import CATALOG, DEAD_LETTERS, EVENTS, STATE
from topics.dead_letter import DeadLetter
from topics.state import RunKey
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason

SETTINGS = Settings(spill_after=1, idle_timeout=10)


class Producer:
    def __init__(self) -> None:
        self.sent: list[tuple[Outgoing, asyncio.Future[object]]] = []
        self.error: Exception | None = None

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, Awaitable[object]]:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        delivery = asyncio.get_running_loop().create_future()
        self.sent.append((records[0], delivery))
        return 1, delivery

    def topics(self) -> list[str]:
        return [record.topic.removeprefix("turnmill.") for record, _ in self.sent]

    def deliver(self) -> None:
        for _, delivery in self.sent:
            if not delivery.done():
                delivery.set_result(None)


@pytest.fixture
async def producer() -> Producer:
    return Producer()


@pytest.fixture
async def work(producer: Producer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AssembleWork:
    async def nothing(_: Settings, partitions: Mapping[int, int], __: object) -> dict[int, RestoredState]:
        return {partition: RestoredState() for partition in partitions}

    monkeypatch.setattr(checkpoint_module, "read_state", nothing)
    settings = SETTINGS.model_copy(update={"home": tmp_path})
    checkpoint = AssembleWork(assemble_settings(settings), TOYS, producer, AssemblyMetrics(Metrics(10), "events"))
    await checkpoint.assign({0: 0})
    return checkpoint


async def feed(work: AssembleWork, log: Log) -> None:
    await work.handle(0, log.records)  # type: ignore[arg-type]  # they have all that the work reads


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_results_then_segments_then_marks_then_tombstones(work: AssembleWork, producer: Producer) -> None:
    log = Log()
    log.add(envelope(0, text("a"), run_id="long"))
    log.add(envelope(0, text("b"), run_id="short", end="complete"))
    log.add(b"rubbish")
    await feed(work, log)
    await work.tick(0, 1500)
    log.add(envelope(1, [], run_id="long", end="complete"))
    await feed(work, log)
    assert "state" not in producer.topics()
    flush = asyncio.ensure_future(work.flush())
    waves = []
    for _ in range(4):
        await settled()
        waves.append([record for record, delivery in producer.sent if not delivery.done()])
        assert not flush.done()
        producer.deliver()
    assert await flush
    results, segments, marks, tombstones = waves
    assert {record.topic for record in results} == {
        f"turnmill.{name}" for name in ("turns", "telemetry", "dead-letters")
    }
    assert [record.key for record in segments] == [b"6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11/long#0-0.0"]
    assert [state.decode(mark.key or b"", mark.value or b"")[0].run_id for mark in marks] == ["short", "long"]
    assert [(record.key, record.value) for record in tombstones] == [(segments[0].key, None)]


async def test_behind_a_lag_open_runs_are_spilled_with_the_batch_that_is_too_much(work: AssembleWork) -> None:
    log, most = Log(), work.limits.open_bytes
    for number in range(CHECK_RECORDS):
        log.add(envelope(0, text("x" * (2 * most // CHECK_RECORDS)), run_id=str(number)))
    await feed(work, log)
    core = work.held[0].core
    assert 0 < sum(run.size for run in core.runs.open.values()) <= most
    assert len(work.waiting.segments) == CHECK_RECORDS - len(core.runs.open) == work.floor(0)


async def test_the_floor_holds_until_the_producer_has_all(work: AssembleWork, producer: Producer) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    producer.error = KafkaError("no room")
    with pytest.raises(KafkaError):
        await feed(work, log)
    assert work.floor(0) == 0
    producer.error = None
    await feed(work, log)  # the batch again
    assert work.floor(0) == 1
    assert producer.topics() == ["turns", "telemetry"]
    flush = asyncio.ensure_future(work.flush())
    for _ in range(3):
        await settled()
        producer.deliver()
    assert await flush
    assert producer.topics().count("state") == 1, "the mark was not lost with the batch that failed"


async def test_no_mark_before_its_turn_is_delivered(work: AssembleWork, producer: Producer) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    await feed(work, log)
    producer.sent[0][1].set_exception(KafkaError("no"))
    producer.deliver()
    assert not await work.flush()
    assert "state" not in producer.topics()
    assert producer.topics().count("turns") == 2


async def test_a_producer_that_takes_no_marks_holds_the_commit_and_raises_nothing(
    work: AssembleWork, producer: Producer
) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    await feed(work, log)
    producer.deliver()
    producer.error = KafkaError("no room")
    assert not await work.flush()
    producer.error = None
    flush = asyncio.ensure_future(work.flush())
    await settled()
    producer.deliver()
    assert await flush
    assert producer.topics().count("state") == 1


async def test_a_flush_that_is_cancelled_at_its_marks_writes_them_the_next_time(
    work: AssembleWork, producer: Producer
) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    await feed(work, log)
    flush = asyncio.ensure_future(work.flush())
    await settled()
    producer.deliver()
    await settled()
    producer.sent[-1][1].set_exception(KafkaError("no"))
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert not await work.flush()
    producer.deliver()
    assert await work.flush()
    assert producer.topics().count("state") == 2


async def test_time_passes_only_by_what_is_told(work: AssembleWork) -> None:
    log = Log()
    log.add(envelope(0, text("a")))
    await feed(work, log)
    for _ in range(20):
        await work.tick(0, 0)
    core = work.held[0].core
    assert (core.now, core.open_runs()) == (START, 1)
    for _ in range(11):
        await work.tick(0, 1000)
    assert core.open_runs() == 0


async def test_a_new_record_after_a_quiet_time_has_its_deadlines(work: AssembleWork) -> None:
    """The partition's clock follows its records, however long it stood still."""
    await work.tick(0, 1000)
    log = Log()
    log.add(envelope(0, text("a")), at=10**9)
    await feed(work, log)
    for _ in range(11):
        await work.tick(0, 1000)
    assert work.held[0].core.open_runs() == 0


async def test_what_was_dropped_has_no_floor(work: AssembleWork) -> None:
    work.drop()
    assert work.floor(0) is None
    assert await work.flush()


async def test_a_turn_that_no_topic_takes_is_a_dead_letter(work: AssembleWork, producer: Producer) -> None:
    instead = work.outbox._again(Outgoing(work.results.turns_topic, b"k", b"x" * 99, 3), MessageSizeTooLargeError())
    letter = dead_letter.from_record(instead.key, instead.value, instead.headers or [])
    assert (letter.reason, letter.partition, letter.key) == (Reason.TOO_LARGE, 3, b"k")
    assert "99 bytes is more than turnmill.turns takes" in letter.detail
    counted = work.counts.metrics.registry.get_sample_value(m.DEAD_LETTERS.name, {"reason": "too_large"})
    assert counted == 1, "as every dead letter"


async def test_a_producer_that_takes_no_marks_is_logged_once_a_minute(
    work: AssembleWork, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    await feed(work, log)
    flush = asyncio.ensure_future(work.flush())
    await settled()
    producer.error = ConnectionError("away")
    producer.deliver()
    assert not await flush
    assert [await work.flush() for _ in range(3)] == [False] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "the producer accepts no records: ConnectionError('away')"
    ]


@pytest.mark.parametrize(
    ("header", "redriven"), [(b"3", 3), (None, 0), (b"", 0), (b"x", 0), (b"-1", 0), (b"9" * 5000, 0), ("³".encode(), 0)]
)
def test_letters_of_odd_records(header: Any, redriven: int) -> None:
    record = StoredRecord(b"v", 7, 0, b"k", [("turnmill.redriven", header), ("x", b"\xff")])
    sent = outgoing_letter("p", "p.events", 2, Refused(record, Reason.UNDECODABLE, "détail \ud800" * 1000))
    letter = dead_letter.from_record(sent.key, sent.value, sent.headers or [])
    assert (letter.redriven, letter.offset, letter.partition, letter.value) == (redriven, 7, 2, b"v")


def test_a_record_with_neither_key_nor_value_can_be_sent() -> None:
    empty = StoredRecord(None, 7, 0)  # as Kafka gives a record without a value
    sent = outgoing_letter("p", "p.events", 0, Refused(empty, Reason.NOT_AN_ENVELOPE, "x"))
    assert (sent.key, sent.value) == (None, b"")


def test_limits_are_the_settings_in_ms() -> None:
    limits = limits_of(SETTINGS)
    assert (limits.spill_ms, limits.idle_ms, limits.gap_ms, limits.record_bytes) == (1000, 10_000, 30_000, 1_048_576)


def test_whatever_may_come_in_can_go_out() -> None:
    """A record that is taken fits each topic on which it may end, and the broker stamps what deadlines rely on."""
    assert all(topic.max_message_bytes > EVENTS.max_message_bytes + 100_000 for topic in CATALOG if topic is not EVENTS)
    assert all(topic.config()["message.timestamp.type"] == "LogAppendTime" for topic in CATALOG)


def test_what_a_takeover_reads_whole_is_compacted_soon() -> None:
    """A broker compacts only closed segments, and closes one by default after a week."""
    config = STATE.config()
    assert "compact" in config["cleanup.policy"]
    assert max(int(config["segment.ms"]), int(config["delete.retention.ms"])) <= 600_000
    assert all("segment.ms" not in topic.config() for topic in CATALOG if topic.cleanup == "delete")


def fails_at(word: str) -> TextRule:
    """A rule of somebody's own, with a fault."""

    def apply(found: str) -> tuple[str, int]:
        if word in found:
            raise RecursionError(word)
        return found, 0

    return TextRule("mine", apply)


async def given(producer: Producer, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AssembleWork:
    async def nothing(_: Settings, partitions: Mapping[int, int], __: object) -> dict[int, RestoredState]:
        return {partition: RestoredState() for partition in partitions}

    monkeypatch.setattr(checkpoint_module, "read_state", nothing)
    made = AssembleWork(assemble_settings(SETTINGS), TOYS, producer, AssemblyMetrics(Metrics(10), "events"), **options)
    await made.assign({0: 0})
    return made


def letters_of(producer: Producer) -> list[DeadLetter]:
    sent = [record for record, _ in producer.sent if record.topic.endswith(DEAD_LETTERS.name)]
    return [dead_letter.from_record(one.key, one.value, one.headers or []) for one in sent]


async def test_an_event_that_can_not_be_redacted_takes_no_other_result_with_it(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = await given(producer, monkeypatch, redaction=Redaction([fails_at("deep")]))
    log = Log()
    log.add(envelope(0, [{"type": "usage", "data": {"said": "deep"}}], run_id="hostile", end="complete"))
    log.add(envelope(1, [{"type": "usage", "data": {"said": "deep, too"}}], run_id="early"))
    log.add(envelope(0, text("a"), run_id="good", end="complete"))
    log.add(envelope(0, text("b"), run_id="early", end=None))
    await feed(work, log)
    raw = [record.value for record in log.records]
    found = letters_of(producer)
    assert [(letter.reason, letter.value) for letter in found] == [
        (Reason.UNPROCESSABLE, raw[0]),
        (Reason.UNPROCESSABLE, raw[1]),
    ]
    assert producer.topics().count("turns") == 2, "the run goes on without its telemetry"


async def test_a_turn_that_can_not_be_offloaded_does_not_stop_its_partition(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fails:
        threshold = 0

        async def __call__(self, value: bytes) -> bytes:
            if b"deep" in value:
                raise InvalidRecord(Reason.UNDECODABLE, "nested too deeply")
            return value.replace(b"large", b"reference")

        async def move(self, record: TurnRecord) -> None:
            raise AssertionError("none of them is of a large run")

        def has_long_text(self, record: TurnRecord) -> bool:
            return False

        async def move_longest(self, record: TurnRecord) -> None:
            raise AssertionError("none of them has a long text")

        def fits(self, record: TurnRecord) -> bool:
            return True

    work = await given(producer, monkeypatch, offload=Fails())
    log = Log()
    for number, said in enumerate(("large", "deep", "large")):
        log.add(envelope(0, text(said), run_id=str(number), end="complete"))
    await feed(work, log)
    turns = [record.value or b"" for record, _ in producer.sent if record.topic == work.results.turns_topic]
    assert [b"reference" in turn for turn in turns] == [True, False, True]
    assert work.floor(0) == 3


async def test_results_stay_in_the_core_until_all_of_them_exist(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="complete"))
    with monkeypatch.context() as broken:
        broken.setattr(outgoing_results.telemetry, "encode", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await feed(work, log)
        assert work.floor(0) == 0
    await feed(work, log)  # the batch again
    assert producer.topics() == ["turns", "telemetry"]
    assert work.floor(0) == 1


async def delivering(producer: Producer) -> None:
    while True:
        await asyncio.sleep(0)
        producer.deliver()


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_spilled_run_that_can_not_be_built_leaves_all_of_its_records(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch, *, delivered: bool
) -> None:
    async def on_the_topic(_: Settings, __: int, names: Collection[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
        found = {record.key: record.value for record, delivery in producer.sent if delivery.done()}
        assert found.keys() >= set(names)
        for name in names:
            yield name, found[name] or b""

    monkeypatch.setattr(state_reads_module, "read_entries", on_the_topic)
    broker = asyncio.ensure_future(delivering(producer))
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "poison"}], run_id="bad"))
    await feed(work, log)
    if delivered:
        await work.tick(0, 1500)
        assert await work.flush()
    else:
        work.held[0].core.tick(START + 1500)
        work.held[0].core.spill()
    log.add(envelope(2, text("b"), run_id="bad"), at=1500)
    log.add(envelope(3, text("c"), run_id="bad", end="complete"), at=1500)
    log.add(envelope(0, text("d"), run_id="good", end="complete"), at=1500)
    await feed(work, log)
    broker.cancel()
    assert sorted(letter.value or b"" for letter in letters_of(producer)) == sorted(r.value for r in log.records[:3])
    assert producer.topics().count("turns") == 1
    assert (work.floor(0), work.held[0].core.out.unbuilt) == (4, [])


async def test_large_turns_of_two_tenants_are_told_apart_though_their_ids_are_equal(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_results, "MAX_REQUEST_BYTES", 5000)
    monkeypatch.setattr(finishing_module, "LARGE_RUN_BYTES", 1000)
    log = Log()
    log.add(envelope(0, text("x" * 6000), tenant="acme", end="complete"))
    log.add(envelope(0, text("y" * 1500), tenant="evil", end="complete"))
    await feed(work, log)
    assert [letter.value for letter in letters_of(producer)] == [log.records[0].value]
    assert producer.topics().count("turns") == 1


async def test_a_turn_that_is_too_large_is_cut_off_and_leaves_the_other_records_of_its_run(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_results, "MAX_REQUEST_BYTES", 5000)
    monkeypatch.setattr(finishing_module, "LARGE_RUN_BYTES", 1000)
    log = Log()
    log.add(envelope(0, text("x" * 3000), run_id="large"))
    work.held[0].core.feed(log.records)
    work.held[0].core.tick(START + 1500)
    work.held[0].core.spill()
    log.add(envelope(1, text("y" * 3000), run_id="large", end="complete"), at=1500)
    log.add(envelope(0, text("small"), run_id="small", end="complete"), at=1500)
    await feed(work, log)
    log.add(envelope(2, text("z"), run_id="large", end="complete"), at=1500)
    await feed(work, log)
    found = letters_of(producer)
    assert [(letter.reason, letter.value) for letter in found] == [
        (Reason.TOO_LARGE, record.value) for record in (log.records[1], log.records[3])
    ]
    assert all("TURNMILL_CONTENT" in letter.detail for letter in found)
    turns = [
        turn_record.decode(record.value) for record, _ in producer.sent if record.topic == work.results.turns_topic
    ]
    assert [(turn["run_id"], turn["status"], turn["events"]) for turn in turns] == [
        ("small", "complete", 1),
        ("large", "interrupted", 1),
    ]
    assert (turns[1]["turn"] or {})["interruption"]["reason"] == "too_large"
    assert "x" * 3000 in str(turns[1]["turn"])
    mark = work.held[0].core.runs.marks.get(RunKey(None, THREAD, "large"))
    assert mark is not None
    assert (mark.complete, mark.cut) == (False, True)
    assert work.floor(0) == 4


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("end", ["complete", "aborted"])
async def test_a_turn_that_can_not_be_encoded_leaves_the_records_of_its_run(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch, end: str, *, spilled: bool
) -> None:
    encoded = turn_record.encode

    def fails(record: TurnRecord) -> bytes:
        return encoded(record) if record["run_id"] != "bad" else bytes(1 // 0)

    monkeypatch.setattr(turn_record, "encode", fails)
    broker = asyncio.ensure_future(delivering(producer))
    log = Log()
    log.add(envelope(0, text("a"), run_id="good", end="complete"))
    log.add(envelope(0, text("b"), run_id="bad"))
    work.held[0].core.feed(log.records)
    if spilled:
        work.held[0].core.tick(START + 1500)
        work.held[0].core.spill()
    log.add(envelope(1, text("c"), run_id="bad", end=end), at=1500)
    log.add(envelope(0, text("d"), run_id="other", end="complete"), at=1500)
    await feed(work, log)
    broker.cancel()
    turns = [
        turn_record.decode(record.value) for record, _ in producer.sent if record.topic == work.results.turns_topic
    ]
    assert [turn["run_id"] for turn in turns] == ["good", "other"]
    letters = letters_of(producer)
    assert sorted(letter.value or b"" for letter in letters) == sorted(r.value for r in log.records[1:3])
    assert {letter.detail for letter in letters} == {
        "the turn could not be encoded: ZeroDivisionError: integer division or modulo by zero"
    }
    assert work.floor(0) == 4
