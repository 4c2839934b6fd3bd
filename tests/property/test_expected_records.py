"""The native kernel reads records as they are read without it: what it takes, and what it leaves, comes out alike."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiled_core
from pipeline.assembly import partition as partition_module
from pipeline.assembly import run as run_module
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.bench.streams import STREAMS
from pipeline.dialects import DIALECTS
from threadmill.micro_batch import MicroBatch
from topics import telemetry, turn_record

Reader = Callable[[dict[bytes, Any], bytes], Any]
Told = list[tuple[bytes, list[int] | None]]

START = 1_768_928_342_002
THREAD = "0d5c3a52-8d6e-4e0e-9a0e-1d2f3a4b5c6d"
NAMES = sorted(name for name, dialect in DIALECTS.items() if dialect.texts)
WORDS = st.one_of(
    st.text(min_size=1, max_size=6),
    st.sampled_from(
        ["", " a", "\n", '"', "\\", "\\\\", '"},{"', "/", "\t\r\b\f", "\x7f", "é", "日本", "\U0001f600", "\0", '\\"']
    ),
)
# What a hostile or another publisher's record may hold where ours has other bytes.
ODD = [
    *(bytes([byte]) for byte in b'"\\,:{}[]0123456789-+.eEnut \t\n\0'),
    *(b"\x80", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xf0\x9f", b"\xff", b"\\u0061", b"\\ud83d", b"\\ude00", b"\\/"),
    *(b"00", b"-0", b"1e3", b"1.0", b"true", b"null", b"9007199254740991", b"9007199254740992", b"1" * 30),
    *(b',"dt":[0]', b',"dt":[0,1]', b',"dt":[]', b',"dt":null', b',"seq":3', b',"ts":1', b',"tenant":"evil"', b'"},{"'),
]


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The kernel: the core's own where that is compiled, else made of its source."""
    if importlib.util.find_spec("pipeline.assembly.delta_reader") is None:
        folder = tmp_path_factory.mktemp("kernel")
        try:
            (made,) = compiled_core.kernels_to(folder, folder / "work")
        except SystemExit as missing:
            pytest.skip(str(missing))
        spec = importlib.util.spec_from_file_location("pipeline.assembly.delta_reader", made)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.read_deltas  # type: ignore[no-any-return]  # as its stub says
    return sys.modules[Partition.__module__].read_deltas  # type: ignore[no-any-return]  # as above


@contextmanager
def reading_with(reader: Reader | None) -> Iterator[None]:
    """The core, with this kernel or without any."""
    before = partition_module.read_deltas
    partition_module.read_deltas = run_module.read_deltas = reader
    try:
        yield
    finally:
        partition_module.read_deltas = run_module.read_deltas = before


def outcome(values: list[bytes], reader: Reader | None, batch: int = 3) -> list[Any]:
    """All that comes out of these records, and what is left open, before and behind the deadlines."""
    with reading_with(reader):
        assembly = Partition(DIALECTS, Limits(), 0)
        records = [StoredRecord(value, n, START + n, THREAD.encode()) for n, value in enumerate(values)]
        for first in range(0, len(records), batch):
            assembly.feed(records[first : first + batch])
        seen: list[Any] = [assembly.next, assembly.now, assembly.floor(), dict(assembly.counts.events)]
        seen += [
            (key, run.next, run.size, run.last_at, run.last_offset, run.ended_at, run.unspilled, run.builder.at)
            for key, run in assembly.runs.open.items()
        ]
        assembly.tick(START + 10 * Limits().run_ms)
        out = assembly.out
        seen += [turn_record.encode(turn) for turn in out.turns]
        seen += [telemetry.encode(record) for record in out.telemetry]
        seen += [(refused.record.offset, refused.reason, refused.detail) for refused in out.dead]
        return [*seen, out.marks]


def bench_records(dialect: str, events: list[Any], sizes: list[int], tenant: str | None) -> list[bytes]:
    """As other publishers write them: the events before their times, the tenant at the end."""
    values, seq = [], 0
    for size in sizes:
        some = events[seq : seq + size]
        names = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "seq": seq, "ts": START + seq}
        record: dict[str, Any] = {**names, "dialect": dialect, "events": some}
        if size > 1:
            record["dt"] = list(range(len(some)))
        if tenant is not None:
            record["tenant"] = tenant
        values.append(orjson.dumps(record))
        seq += size
    return values


def our_records(dialect: str, events: list[Any], sizes: list[int], tenant: str | None) -> list[bytes]:
    """As our publisher writes them."""
    identity = {"thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": dialect}
    batch = MicroBatch({**identity, "tenant": tenant} if tenant is not None else identity, None)
    values, seq = [], 0
    for size in sizes:
        for event in events[seq : seq + size]:
            batch.add(event, at=START + seq)
        values.append(batch.take(at=START + seq))
        seq += size
    return values


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """The records of an answer on one of the wires."""
    dialect = draw(st.sampled_from(NAMES))
    events = STREAMS[dialect](draw(st.lists(WORDS, min_size=12, max_size=40)))
    sizes: list[int] = []
    while sum(sizes) < len(events):
        sizes.append(draw(st.sampled_from([1, 1, 2, 4])))
    write = draw(st.sampled_from([bench_records, our_records]))
    return write(dialect, events, sizes, draw(st.sampled_from([None, None, "acme"])))


@st.composite
def damaged(draw: st.DrawFn) -> list[bytes]:
    """The same, with a few bytes of a few records exchanged for others, some records twice, and one left out."""
    values = list(draw(streams()))
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(0, len(values) - 1))
        value = values[n]
        first = draw(st.integers(0, len(value)))
        last = min(len(value), first + draw(st.sampled_from([0, 0, 1, 1, 2, 8, 40])))
        values[n] = (
            value[:first]
            + draw(st.one_of(st.just(b""), st.sampled_from(ODD), st.just(value[first:last] * 2)))
            + value[last:]
        )
    if draw(st.booleans()):
        n = draw(st.integers(0, len(values) - 1))
        values.insert(n, values[draw(st.integers(0, len(values) - 1))])
    if draw(st.booleans()):
        del values[draw(st.integers(0, len(values) - 1))]
    return values


@given(values=streams(), batch=st.sampled_from([1, 3, 100]))
@settings(max_examples=150)
def test_records_say_the_same_with_the_kernel(reader: Reader, values: list[bytes], batch: int) -> None:
    assert outcome(values, reader, batch) == outcome(values, None, batch)


@given(values=damaged())
@settings(max_examples=400)
def test_damaged_records_are_read_alike(reader: Reader, values: list[bytes]) -> None:
    assert outcome(values, reader) == outcome(values, None)


@pytest.mark.parametrize("write", [bench_records, our_records])
@pytest.mark.parametrize("dialect", NAMES)
def test_the_kernel_reads_what_goes_on_with_a_text(reader: Reader, dialect: str, write: Any) -> None:
    read = []

    def counted(expecting: dict[bytes, Any], value: bytes) -> Any:
        said = reader(expecting, value)
        read.append(said is not None)
        return said

    events = STREAMS[dialect]([f"a word, {n}\n" for n in range(100)])
    values = write(dialect, events, [2] * (len(events) // 2 + 1), "acme")
    outcome(values, counted)
    assert sum(read) > 40


@pytest.mark.parametrize(
    "value",
    [b"", b",", b',"seq":', b',"seq":1', b'{,"seq":1,"ts":2', b'{,"seq":1,"ts":2,"dt":[', b'{,"seq":1,"ts":2M"'],
)
def test_what_stops_short_is_left_alone(reader: Reader, value: bytes) -> None:
    entry = (b"M", b"B", b"E", b"T", None)
    assert reader({b"{": entry, b"": entry}, value) is None


def test_the_kernel_takes_bytes_and_whole_entries(reader: Reader) -> None:
    with pytest.raises(TypeError, match="a dict and bytes"):
        reader({}, "text")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="an entry is"):
        reader({b"{": ()}, b'{,"seq":1')
    with pytest.raises(TypeError, match="are bytes"):
        reader({b"{": (b"", "", b"", b"", None)}, b'{,"seq":1')
    assert reader({b"{": (b"M", b'"B', b'"E', b"T", "it")}, b'{,"seq":1,"ts":2,"dt":[-1,3]Mx\\n"By"ET') == (
        "it", 1, 1, 5, 2, "x\ny",
    )  # fmt: skip
