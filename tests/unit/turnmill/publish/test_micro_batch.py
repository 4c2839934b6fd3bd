"""Numbering, dating and packing of one run's events."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics.agent_event import explain
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import RECORD_BYTES
from turnmill.publish.micro_batch import MicroBatch
from turnmill.wire.envelope import decode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
IDENTITY = {"thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai"}


def delta(text: str) -> dict[str, str]:
    return {"type": "text-delta", "id": "t", "delta": text}


def test_records_number_and_date_their_events() -> None:
    batch = MicroBatch(IDENTITY, {"model_name": "m"})
    for at in (1000, 1014, 1030):
        assert batch.add(delta("x"), at) == []
    first = decode(batch.take(at=9999))
    batch.add(delta("y"), 1100)
    second = decode(batch.take("complete", at=9999))

    assert (first["seq"], first["ts"], first["dt"]) == (0, 1000, [0, 14, 30])
    assert first["run"] == {"model_name": "m"}
    assert "end" not in first
    assert (second["seq"], second["ts"], second["dt"], second["end"]) == (3, 1100, [0], "complete")
    assert "run" not in second
    assert first["events"] + second["events"] == [delta("x")] * 3 + [delta("y")]


def test_an_end_alone_is_a_record_at_the_next_seq() -> None:
    batch = MicroBatch(IDENTITY | {"tenant": "acme"})
    batch.add(delta("x"), 1000)
    batch.take(at=1000)
    value = batch.take("aborted", at=2000)
    record = decode(value)
    assert (record["seq"], record["ts"], record["events"], record["end"]) == (1, 2000, [], "aborted")
    assert record["tenant"] == "acme"
    assert explain(value) == []


def test_max_events_closes_a_record() -> None:
    batch = MicroBatch(IDENTITY, max_events=2)
    assert batch.add(delta("a"), 1) == []
    (record,) = batch.add(delta("b"), 2)
    assert [e["delta"] for e in decode(record)["events"]] == ["a", "b"]
    assert len(batch) == 0


def test_an_event_that_does_not_fit_opens_the_next_record() -> None:
    batch = MicroBatch(IDENTITY, max_bytes=1000)
    assert batch.add(delta("x" * 400), 1) == []
    (record,) = batch.add(delta("y" * 400), 2)
    assert decode(record)["seq"] == 0
    assert decode(batch.take(at=3))["seq"] == 1


def test_a_large_request_travels_before_the_first_event() -> None:
    batch = MicroBatch(IDENTITY, {"request": "q" * 700}, max_bytes=1200)
    (record,) = batch.add(delta("x" * 700), 5)
    first = decode(record)
    assert (first["run"], first["events"], first["seq"]) == ({"request": "q" * 700}, [], 0)
    second = decode(batch.take(at=6))
    assert (second["seq"], len(second["events"])) == (0, 1)
    assert "run" not in second


def test_an_event_over_the_limit_is_refused_and_takes_no_number() -> None:
    batch = MicroBatch(IDENTITY)
    with pytest.raises(InvalidRecord, match=r"event 0 \(text-delta\) has 900,0\d\d bytes.*by reference") as refused:
        batch.add(delta("x" * RECORD_BYTES), 1)
    assert refused.value.reason is Reason.TOO_LARGE
    batch.add(delta("ok"), 2)
    assert decode(batch.take(at=3))["seq"] == 0


def test_an_info_over_the_limit_is_refused_at_once() -> None:
    with pytest.raises(InvalidRecord, match="leave large content out of `request`"):
        MicroBatch(IDENTITY, {"request": "q" * RECORD_BYTES})


@pytest.mark.parametrize("event", ["text", None, ["type"], {"type": object()}, {"type": {1, 2}}])
def test_what_is_no_json_object_is_refused(event: object) -> None:
    batch = MicroBatch(IDENTITY)
    with pytest.raises(InvalidRecord) as refused:
        batch.add(event, 1)  # type: ignore[arg-type]
    assert refused.value.reason is Reason.INVALID_EVENT
    assert batch.seq == 0


def test_events_are_what_they_were_when_they_were_added() -> None:
    batch, event = MicroBatch(IDENTITY), delta("before")
    batch.add(event, 1)
    event["delta"] = "after"
    assert decode(batch.take(at=1))["events"] == [delta("before")]


def test_lone_surrogates_and_large_integers_travel() -> None:
    batch, events = MicroBatch(IDENTITY), [delta("\ud83d"), {"type": "data-n", "data": 2**70}]
    for event in events:
        batch.add(event, 1)
    assert json.loads(batch.take(at=1))["events"] == events


@given(
    texts=st.lists(st.text(max_size=300), max_size=40),
    times=st.lists(st.integers(0, 2**45), min_size=40, max_size=40),
    limit=st.integers(700, 3000),
    most=st.none() | st.integers(1, 7),
)
def test_any_packing_keeps_order_numbers_times_and_the_limit(texts, times, limit, most) -> None:
    batch, refused, values = MicroBatch(IDENTITY, {"agent_name": "A"}, max_bytes=limit, max_events=most), [], []
    for text, at in zip(texts, times, strict=False):
        try:
            values += batch.add(delta(text), at)
        except InvalidRecord:
            refused.append(text)
    values.append(batch.take("complete", at=7))
    records = [decode(value) for value in values]

    assert all(len(value) <= limit for value in values)
    assert [e["delta"] for r in records for e in r["events"]] == [t for t in texts if t not in refused]
    assert [r["seq"] for r in records] == [sum(len(r["events"]) for r in records[:i]) for i in range(len(records))]
    kept = [at for text, at in zip(texts, times, strict=False) if text not in refused]
    assert [r["ts"] + d for r in records for d in r.get("dt", [])] == kept
    assert [r.get("end") for r in records] == [None] * (len(records) - 1) + ["complete"]
    assert ["run" in r for r in records] == [True] + [False] * (len(records) - 1)
    assert most is None or all(len(r["events"]) <= most for r in records)
