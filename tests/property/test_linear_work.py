"""What assembling costs is linear in what comes: twice as many records more take twice the work more.

Work is counted in lines of Python, which are the same on every machine. What one line may cost in C is bounded by time
of the processor, with ample room: what grows with the square would take four times as much as it may.
"""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from tests.property.test_hostile_events import FILES, streams
from tests.support.assembled import START, THREAD_ID
from topics.agent_event import explain
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import decode, encode

LATER: Final = START + 10 * Limits().run_ms
N: Final = 30
ROOM: Final = 1.4  # for lists that grow; where work grows with the square, it is 2
PEAK: Final = 60  # bytes of memory for each byte that comes, with what stays of it

Values = list[bytes]


def lines_of(act: Callable[[], object]) -> int:
    """How many lines of Python it runs."""
    count = 0

    def trace(_: Any, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def assembled(values: Values) -> Partition:
    partition = Partition(DIALECTS, Limits(), 0)
    partition.feed([StoredRecord(value, number, START + number) for number, value in enumerate(values)])
    partition.tick(LATER)
    assert partition.open_runs() == 0
    return partition


def record(seq: int, *events: Any, dialect: str = "vercel-ai", run: str = "r", **more: Any) -> bytes:
    fixed = {"v": 1, "thread_id": THREAD_ID, "run_id": run, "agent_id": "a", "seq": seq, "ts": START + seq}
    return encode({**fixed, "dialect": dialect, "events": list(events), **more})


def delta(of: str = "t") -> dict[str, Any]:
    return {"type": "text-delta", "id": of, "delta": "word "}


def tool(number: int) -> list[dict[str, Any]]:
    call = {"toolCallId": f"c{number}", "toolName": "t"}
    return [{"type": "tool-input-start", **call}, {"type": "tool-input-delta", **call, "inputTextDelta": '{"a":'}]


BEGIN: Final = [{"type": "start"}, {"type": "text-start", "id": "t"}]
SHAPES: Final[dict[str, Callable[[int], Values]]] = {
    "many events in one record": lambda n: [record(0, *BEGIN, *[delta()] * n)],
    "an event in each record": lambda n: [record(0, *BEGIN), *(record(2 + k, delta()) for k in range(n))],
    "the last one first": lambda n: [*(record(2 + k, delta()) for k in reversed(range(n))), record(0, *BEGIN)],
    "what never begins": lambda n: [record(2 + k, delta()) for k in range(n)],
    "with holes": lambda n: [record(2 * k, delta()) for k in range(n)],
    "all twice": lambda n: [record(k, delta()) for k in range(n) for _ in range(2)],
    "always the same": lambda n: [record(0, *BEGIN)] * n,
    "overlapping": lambda n: [record(k, *[delta()] * 5) for k in range(n)],
    "many runs": lambda n: [record(0, *BEGIN, run=f"r{k}") for k in range(n)],
    "many runs that end": lambda n: [record(0, *BEGIN, run=f"r{k}", end="complete") for k in range(n)],
    "ends without an event": lambda n: [record(k, end="error") for k in range(n)],
    "parts that stay open": lambda n: [record(0, *({"type": "text-start", "id": f"t{k}"} for k in range(n)))],
    "calls that stay open": lambda n: [record(0, *(event for k in range(n) for event in tool(k)))],
    "deltas of nothing": lambda n: [record(k, delta(f"nothing-{k}")) for k in range(n)],
    "steps": lambda n: [record(0, *[{"type": "start-step"}, delta(), {"type": "finish-step"}] * n)],
    "telemetry": lambda n: [record(k, {"type": "data-sys-usage", "data": {"input_tokens": k}}) for k in range(n)],
    "unknown events": lambda n: [record(k, {"type": f"data-{k}", "data": [k]}) for k in range(n)],
    "no events at all": lambda n: [record(k, k, None, "x") for k in range(n)],
    "another dialect": lambda n: [record(k, delta(), dialect="anthropic" if k % 2 else "vercel-ai") for k in range(n)],
}
TEXTS: Final[dict[str, Callable[[int], bytes]]] = {
    "brackets": lambda n: b"[" * n,
    "brackets that close": lambda n: b"[" * n + b"]" * n,
    "objects": lambda n: b'{"a":' * n + b"1" + b"}" * n,
    "digits": lambda n: b"9" * n,
    "digits of a fraction": lambda n: b"0." + b"9" * n + b"e" + b"9" * 300,
    "quotes": lambda n: b'"' * n,
    "backslashes": lambda n: b'"' + b"\\" * n,
    "half pairs": lambda n: b'["' + b"\\ud800" * n + b'"]',
    "brackets in a text": lambda n: b'["\\ud800' + b"[" * n + b'"]',
    "the same name": lambda n: b'{"\\ud800":1' + b',"v":1' * n + b"}",
    "white space": lambda n: b'["\\ud800",' + b" " * n + b"1]",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_records_of_one_shape(shape: str) -> None:
    assert not more_than_linear(SHAPES[shape])


@pytest.mark.parametrize("dialect", FILES)
def test_streams_of_a_wire_that_go_on_and_on(dialect: str) -> None:
    """Each kind of event of the wire's recorded streams, again and again in one run."""
    worst = []
    for kind, before, event in kinds_of(dialect):

        def repeated(n: int, before: list[Any] = before, event: Any = event) -> Values:
            events = [*before, *islice(cycle([event]), n)]
            return [record(seq, one, dialect=dialect) for seq, one in enumerate(events)]

        if found := more_than_linear(repeated):
            worst.append(f"{kind}: {found}")
    assert not worst, "\n".join(worst)


class Counted(list[Any]):
    """Events of a record; `read` counts those that were looked at or copied."""

    read = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.read += len(found) if isinstance(place, slice) else 1
        return found

    def __iter__(self) -> Iterator[Any]:
        for event in super().__iter__():
            self.read += 1
            yield event


@pytest.mark.parametrize("dialect", FILES)
def test_stretches_of_one_record_that_are_broken_off_again_and_again(dialect: str) -> None:
    """A delta and something else by turns: no stretch may look at all that follows it."""
    for kind, before, event in kinds_of(dialect):
        if kind in DIALECTS[dialect].stretches:
            events = Counted([*before, *islice(cycle([event, {}]), 40 * N)])
            value = record(0, {}, dialect=dialect)
            run = Run(decode(value), DIALECTS[dialect], StoredRecord(value, 0, START), len(value))
            run.apply_events(START, events, None, StoredRecord(value, 0, START))
            assert events.read < 4 * len(events), kind


def more_than_linear(make: Callable[[int], Values]) -> str:
    """-> what was counted; empty where the work of 2N more is twice that of N more. What is done once, drops out."""
    assembled(make(1))  # what is loaded late, is loaded
    works = [lines_of(partial(assembled, make(n))) for n in (N, 2 * N, 4 * N)]
    few, many = works[1] - works[0], works[2] - works[1]
    return f"{works} lines for {N}, {2 * N} and {4 * N}" if many > 2 * max(few, N) * ROOM else ""


def kinds_of(dialect: str) -> Iterator[tuple[str, list[Any], Any]]:
    """(kind, the stream before it, the event) of the first event of each kind."""
    seen = set()
    key = DIALECTS[dialect].wire.kind
    for events in streams(dialect):
        for number, event in enumerate(events):
            kind = str(event.get(key))
            if kind not in seen and number < 20:
                seen.add(kind)
                yield kind, events[:number], event


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_parsers_may_read_again_and_again(text: str) -> None:
    def spent(n: int) -> float:
        value = TEXTS[text](n)
        began = time.thread_time()
        explain(value)
        with suppress(InvalidRecord):
            decode(value)
        return time.thread_time() - began

    few, many = min(spent(20_000) for _ in range(3)), min(spent(160_000) for _ in range(3))
    assert many < 8 * 3 * few + 0.1, f"{few:.3f} s for one, {many:.3f} s for eight times as much"


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_for_each_byte(shape: str) -> None:
    values = SHAPES[shape](2000)
    assembled(SHAPES[shape](10))
    tracemalloc.start()
    try:
        partition = assembled(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(map(len, values))
    assert peak < PEAK * size, f"{peak / size:.0f} bytes for each byte of {size}"
    json.dumps(partition.out.turns)
