"""The native kernel reads records as they are read without it: what it takes, and what it leaves, comes out alike."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiled_core
from pipeline.assembly import partition as partition_module
from pipeline.assembly import run as run_module
from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.bench.streams import STREAMS
from topics import telemetry, turn_record
from turnmill.publish.micro_batch import MicroBatch
from turnmill.wire.envelope import MAX_INTEGER

Reader = Callable[[dict[bytes, Any], bytes], Any]
Told = list[tuple[bytes, list[int] | None]]

START = 1_768_928_342_002
THREAD = "0d5c3a52-8d6e-4e0e-9a0e-1d2f3a4b5c6d"
NAMES = sorted(name for name, dialect in DIALECTS.items() if dialect.deltas)
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


@given(values=streams(), parked_after=st.integers(1, 8))
@settings(max_examples=60)
def test_a_parked_run_is_followed_without_it(reader: Reader, values: list[bytes], parked_after: int) -> None:
    """It has let go of what it has made: nothing may be appended to that."""
    found = []
    for kernel in (reader, None):
        with reading_with(kernel):
            assembly = Partition(DIALECTS, Limits(), 0)
            for n, value in enumerate(values):
                assembly.feed([StoredRecord(value, n, START + n, THREAD.encode())])
                if n == parked_after:
                    park(assembly, 0)
            found.append([(key, run.next, run.size, run.read) for key, run in assembly.runs.open.items()])
            assert not assembly.out.dead
    assert found[0] == found[1]


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


# The bytes of records that are nearly as expected.
HEAD, TAIL = b'{"v":1', b',"tenant":"x"}'
KNOWN = (b',"dialect":"d","events":[{"t":"', b'"},{"t":"', b'"}]', TAIL, "its run")
FRAGMENTS = [
    *(
        b"",
        b"a",
        b"a word",
        b'"',
        b"\\",
        b"\\n",
        b'\\"',
        b"\\\\",
        b"\\/",
        b"\\x",
        b"\\u0041",
        b"\\ud83d",
        b"\\ude00",
        b"\n",
        b"\x1f",
    ),
    *(
        "\u00e9".encode(),
        b"\xc3",
        b"\xa9",
        b"\xe6\x97",
        b"\xa5",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\x98\x80",
        b"\xff",
        b"\0",
        b"}",
    ),
    *(b"\x7f", b'"},{"t":"', b'"},{"t": "', b'"}]'),
]
NUMBERS = [
    *(
        b"0",
        b"7",
        b"-7",
        b"00",
        b"07",
        b"-0",
        b"",
        b"-",
        b"7.0",
        b"7e0",
        b" 7",
        b"+7",
        b"9007199254740991",
        b"9007199254740992",
    ),
    *(b"-9007199254740991", b"99999999999999999999", b"true", b'"7"', b"1,2", b"1]", b'7,"ts":8'),
]
TAILS = [TAIL, b"}", TAIL + b" ", TAIL + b"}", b"", TAIL[:-1], b" " + TAIL]


def record(
    seq: bytes, ts: bytes, times: list[bytes], pieces: list[bytes], layout: str = "behind", tail: bytes = TAIL
) -> bytes:
    dt = b',"dt":[' + b",".join(times) + b"]" if times else b""
    before, behind = dt if layout in ("before", "both") else b"", dt if layout in ("behind", "both") else b""
    return (
        HEAD + b',"seq":' + seq + b',"ts":' + ts + before + KNOWN[0] + KNOWN[1].join(pieces) + KNOWN[2] + behind + tail
    )


def nearly() -> Iterator[bytes]:
    """Records of which a piece or two are out of the ordinary, each at each place."""
    for one, other in product(FRAGMENTS, repeat=2):
        yield record(b"1", b"2", [], [one + other])
        yield record(b"1", b"2", [b"0", b"5"], [one, other])
        yield record(b"1", b"2", [b"0", b"5", b"6"], [b"a", one, other], "before")
    for number, layout in product(NUMBERS, ("before", "behind", "both")):
        yield record(number, b"2", [b"0"], [b"a"], layout)
        yield record(b"1", number, [b"0"], [b"a"], layout)
        yield record(b"1", b"2", [number], [b"a"], layout)
        yield record(b"1", b"2", [number, b"5"], [b"a", b"b"], layout)
        yield record(b"1", b"2", [b"0", number], [b"a", b"b"], layout)
        yield record(b"1", b"2", [b"0", number], [b"a"], layout)
        yield record(b"1", b"2", [number], [b"a", b"b"], layout)
    for tail, layout, times in product(TAILS, ("before", "behind", "both"), ([], [b"4"])):
        yield record(b"1", b"2", times, [b"a"], layout, tail)
    whole = record(b"12", b"345", [b"0", b"5"], [b"a", b"b"])
    for end in range(len(whole)):
        yield whole[:end]
        yield whole[:end] + b" " + whole[end:]


def test_what_is_read_is_what_any_reader_of_json_finds(reader: Reader) -> None:
    read = 0
    for value in nearly():
        said = reader({HEAD: KNOWN}, value)
        if said is None:
            continue
        read += 1
        found = orjson.loads(value)
        seq, ts, dt, texts = found["seq"], found["ts"], found.get("dt"), [event["t"] for event in found["events"]]
        first, last = (dt[0], dt[-1]) if dt is not None else (0, 0)
        assert said == ("its run", seq, ts + first, ts + last, len(texts), "".join(texts)), value
        assert all(texts), value
        assert dt is None or len(dt) == len(texts), value
        assert {type(number) for number in (seq, ts, *(dt or []))} == {int}, value
        assert max(seq, ts) <= MAX_INTEGER, value
    assert read > 200


@pytest.mark.parametrize("times", [b"", b',"dt":[0,5]', b',"dt":[-3,2]'])
def test_all_that_is_usual_is_read(reader: Reader, times: bytes) -> None:
    first, last = orjson.loads(times[6:])[0] if times else 0, orjson.loads(times[6:])[1] if times else 0
    for before, behind in ((times, b""), (b"", times)):
        texts = ["a\\n", 'é "quoted" 日本 \\']
        said = b'"},{"t":"'.join(orjson.dumps(text)[1:-1] for text in texts)
        value = HEAD + b',"seq":12,"ts":100' + before + KNOWN[0] + said + KNOWN[2] + behind + TAIL
        assert reader({HEAD: KNOWN}, value) == ("its run", 12, 100 + first, 100 + last, 2, "".join(texts))


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
