"""What the next record of a run is like; and that only open runs expect one."""

from typing import Any

import pytest

from pipeline.assembly import partition as partition_module
from pipeline.assembly import run as run_module
from pipeline.assembly.expected_record import MARK, MAX_BYTES, expected_after
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from turnmill.wire.envelope import encode

THREAD = "0d5c3a52-8d6e-4e0e-9a0e-1d2f3a4b5c6d"
DELTA = {"type": "text-delta", "id": "t", "delta": " a"}
OPENING = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]


def envelope(**fields: Any) -> dict[str, Any]:
    return {"v": 1, "run_id": "r", "seq": 3, "ts": 7, "dialect": "vercel-ai", "events": [DELTA], **fields}


def entry(envelope: dict[str, Any], *paths: tuple[str | int, ...]) -> tuple[bytes, Any]:
    expected = expected_after(envelope, paths or [("delta",)])
    assert expected is not None
    return expected.head, expected.entry("its run")


def test_the_events_may_stand_before_their_times() -> None:
    assert entry(envelope(dt=[0], tenant="x")) == (
        b'{"v":1,"run_id":"r"',
        (
            b',"dialect":"vercel-ai","events":[{"type":"text-delta","id":"t","delta":"',
            b'"},{"type":"text-delta","id":"t","delta":"',
            b'"}]',
            b',"tenant":"x"}',
            "its run",
        ),
    )


def test_the_times_may_stand_before_the_events() -> None:
    record = {"v": 1, "dialect": "vercel-ai", "seq": 3, "ts": 7, "dt": [0], "events": [DELTA]}
    head, (middle, _, _, tail, _) = entry(record)
    assert (head, tail) == (b'{"v":1,"dialect":"vercel-ai"', b"}")
    assert middle == b',"events":[{"type":"text-delta","id":"t","delta":"'


def test_a_text_may_lie_deep_and_the_event_is_a_copy() -> None:
    event = {"choices": [{"delta": {"content": "hi"}}]}
    expected = expected_after(envelope(events=[event]), [("choices", 0, "delta", "content"), ("choices", 0, "x")])
    assert expected is not None
    assert expected.event("all") == {"choices": [{"delta": {"content": "all"}}]}
    assert event == {"choices": [{"delta": {"content": "hi"}}]}


@pytest.mark.parametrize(
    "record",
    [
        envelope(events=[{**DELTA, "delta": None}]),
        envelope(events=["no object"]),
        envelope(events=[{**DELTA, "id": MARK}]),
        envelope(events=[{**DELTA, "providerMetadata": {"x": "y" * MAX_BYTES}}]),
        envelope(run_id="r" * MAX_BYTES),
        envelope(tenant="t" * MAX_BYTES),
        envelope(events=[{**DELTA, "id": "\ud800"}]),
        {"seq": 3, "v": 1, "ts": 7, "events": [DELTA]},
        {"seq": 3, "ts": 7, "events": [DELTA]},
        {"v": 1, "seq": 3, "ts": 7, "events": [DELTA], "x": 1, "dt": [0]},
        {"v": 1, "ts": 7, "seq": 3, "events": [DELTA]},
    ],
)
def test_what_can_not_be_foreseen_is_not(record: dict[str, Any]) -> None:
    assert expected_after(record, [("delta",)]) is None


def test_of_an_event_with_two_texts_nothing_is_foreseen() -> None:
    assert expected_after(envelope(events=[{**DELTA, "text": ""}]), [("delta",), ("text",)]) is None


def partition(monkeypatch: pytest.MonkeyPatch, tenants: list[str], deltas: int) -> Partition:
    for module in (run_module, partition_module):
        monkeypatch.setattr(module, "read_deltas", lambda expecting, value: None)
    found = Partition(DIALECTS, Limits(), 0)
    for tenant in tenants:
        for seq, event in enumerate([*OPENING, *[DELTA] * deltas]):
            names = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "seq": seq, "ts": 7}
            value = encode({**names, "dialect": "vercel-ai", "events": [event], "tenant": tenant})
            found.feed([StoredRecord(value, found.next, 7, THREAD.encode())])
    return found


def test_only_open_runs_expect_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    found = partition(monkeypatch, ["x"], 1)
    (run,) = found.runs.open.values()
    assert [known[4] for known in found.runs.expecting.values()] == [run]
    found.tick(10 * Limits().run_ms)
    assert not found.runs.open
    assert not found.runs.expecting


def test_runs_whose_records_begin_alike_do_not_remove_each_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = partition(monkeypatch, ["x", "y"], 1)
    first, second = found.runs.open.values()
    assert [known[4] for known in found.runs.expecting.values()] == [second]
    found.runs.expect(first, None)
    assert [known[4] for known in found.runs.expecting.values()] == [second]


def test_a_run_that_is_foreseen_wrongly_is_soon_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = partition(monkeypatch, ["x"], 20)
    (run,) = found.runs.open.values()
    assert run.guesses == 0
