"""One run: its sequence window, what it refuses, and how it ends."""

from typing import Any

import pytest

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.offline import fork
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from tests.support.toy import START, TOY, Envelope, envelope, text
from turnmill.errors import Reason
from turnmill.wire.registry import Wire


def record(offset: int = 0, at: int = 0) -> StoredRecord:
    return StoredRecord(b"{}", offset, START + at)


def run_of(*envelopes: Envelope) -> Run:
    run = Run(envelopes[0], TOY, record())
    for offset, each in enumerate(envelopes):
        run.feed(each, record(offset, 10 * offset))
    return run


def texts(run: Run) -> list[str]:
    return ["".join(part.chunks) for message in run.builder.messages for part in message.parts]


def test_records_in_order() -> None:
    run = run_of(envelope(0, text("a", "b")), envelope(2, text("c"), end="complete"))
    assert texts(run) == ["a", "b", "c"]
    assert (run.next, run.end, run.duplicates, run.early, run.gap_at) == (3, "complete", 0, {}, None)


def test_doubles_and_overlaps_are_dropped_and_counted() -> None:
    run = run_of(
        envelope(0, text("a", "b")), envelope(0, text("a", "b")), envelope(1, text("b", "c")), envelope(0, text("a"))
    )
    assert texts(run) == ["a", "b", "c"]
    assert run.duplicates == 2 + 1 + 1


def test_overlap_takes_the_times_of_what_is_left() -> None:
    run = run_of(envelope(0, text("a", "b")), envelope(1, text("b", "c", "d")))
    assert run.builder.last_at == START + 300


def test_early_records_wait_for_the_hole_before_them() -> None:
    run = run_of(envelope(4, text("e")), envelope(2, text("c", "d")), envelope(1, text("b")))
    assert (texts(run), run.next, run.early.events, run.gap_at) == ([], 0, 4, START)
    run.feed(envelope(0, text("a")), record(9, 90))
    assert (texts(run), run.next, run.early.events, run.gap_at) == (["a", "b", "c", "d", "e"], 5, 0, None)
    assert run.early.order == []


def test_the_first_record_to_come_is_not_the_first_of_the_run() -> None:
    run = run_of(envelope(1, text("b"), agent_id="late"), envelope(0, text("a"), agent_id="a"))
    assert (run.builder.began_at, run.builder.first_at, run.builder.context.agent_id) == (START, START, "a")


def test_a_hole_that_is_filled_gives_the_next_one_its_own_time() -> None:
    run = run_of(envelope(0, text("a")), envelope(2, text("c")), envelope(4, text("e")))
    assert run.gap_at == START + 10
    run.feed(envelope(1, text("b")), record(3, 500))
    assert (run.next, run.gap_at) == (3, START + 500)


def test_of_two_early_records_at_one_place_the_longer_one_counts_once() -> None:
    run = run_of(envelope(5, text("x")), envelope(5, text("x", "y", "z")), envelope(5, text("x", "y")))
    assert (run.early.events, run.last_seq(), run.duplicates, run.early.order) == (3, 7, 2, [5])


def test_an_early_end_does_not_displace_a_record_with_more_events() -> None:
    run = run_of(envelope(1, text("b", "c", "d")), envelope(1, text("b"), end="complete"), envelope(0, text("a")))
    assert texts(run) == ["a", "b", "c", "d"]
    assert (run.next, run.end, run.early.events) == (4, "complete", 0)


def test_what_waits_is_weighed_once() -> None:
    run = run_of(envelope(5, text("f")), envelope(5, text("f", "g")), envelope(5, text("f", "g", "h")))
    alone = run_of(envelope(5, text("f", "g", "h")))
    assert run.ahead == alone.ahead > 0
    run.feed(envelope(0, text("a", "b", "c", "d", "e")), record(9, 90))
    assert run.ahead == 0


def test_an_early_record_is_not_forgotten_for_its_double_without_the_end() -> None:
    run = run_of(
        envelope(1, text("b")), envelope(1, text("b"), end="complete"), envelope(1, text("b")), envelope(0, text("a"))
    )
    assert (run.next, run.end, run.early.events) == (2, "complete", 0)


def test_an_end_waits_for_the_events_before_it() -> None:
    run = run_of(envelope(2, [], end="aborted"))
    assert (run.end, run.early.events) == (None, 1)
    run.feed(envelope(0, text("a", "b")), record(1))
    assert (run.end, run.early.events) == ("aborted", 0)


def test_an_end_that_comes_with_events_seen_already() -> None:
    run = run_of(envelope(0, text("a", "b")), envelope(1, text("b"), end="error"))
    assert (run.end, texts(run)) == ("error", ["a", "b"])


@pytest.mark.parametrize(
    ("late", "known"),
    [
        (envelope(0, text("a")), True),
        (envelope(0, text("a", "b")), True),
        (envelope(2, []), True),
        (envelope(2, [], end="complete"), False),
        (envelope(0, text("a"), end="complete"), True),  # contradicts what was seen
        (envelope(1, text("b", "c")), False),
        (envelope(5, text("x")), True),
        (envelope(5, text("x"), end="error"), False),
        (envelope(5, text("x", "y")), False),
        (envelope(6, text("y")), False),
    ],
)
def test_what_brings_nothing_new(late: Envelope, known: bool) -> None:  # noqa: FBT001
    run = run_of(envelope(0, text("a", "b")), envelope(5, text("x")))
    assert run.knows(late) is known


def test_a_new_run_knows_nothing() -> None:
    run = Run(envelope(0, []), TOY, record())
    assert not run.knows(envelope(0, []))
    run.feed(envelope(0, []), record())
    assert run.knows(envelope(0, []))


def test_many_early_records_in_reverse() -> None:
    run = run_of(*(envelope(seq, text(str(seq))) for seq in reversed(range(3000))))
    assert texts(run) == [str(seq) for seq in range(3000)]


def test_missing_and_counts() -> None:
    run = run_of(envelope(0, text("a")), envelope(3, text("d", "e")), envelope(4, text("e")), envelope(9, text("j")))
    assert run.missing() == [[1, 2], [5, 8]]
    assert (run.last_seq(), run.count(run.missing())) == (9, 4)


def test_going_past_the_holes_leaves_the_run_as_it_is() -> None:
    opened = [{"type": "open", "id": "x"}, {"type": "delta", "id": "x", "delta": "lo"}]
    run = run_of(
        envelope(0, [*text("a"), *opened]), envelope(5, [{"type": "delta", "id": "x", "delta": "st"}, *text("z")])
    )
    ahead = fork(run.builder)
    run.past_the_holes(ahead)
    assert ahead.notes == {"meta:missing": [[3, 4]]}
    assert [(part.chunks, part.done) for part in ahead.messages[0].parts] == [
        (["a"], True),
        (["lo"], False),
        (["z"], True),
    ]
    assert (run.next, list(run.early), run.refusals, len(run.builder.messages[0].parts)) == (3, [5], [], 2)
    assert not run.builder.notes


@pytest.mark.parametrize(
    ("event", "reason", "detail"),
    [
        (7, Reason.INVALID_EVENT, "must be a JSON object"),
        (None, Reason.INVALID_EVENT, "must be a JSON object"),
        ([{"type": "text"}], Reason.INVALID_EVENT, "must be a JSON object"),
        ({}, Reason.INVALID_EVENT, "needs a string 'type'"),
        ({"type": 5}, Reason.INVALID_EVENT, "needs a string 'type'"),
        ({"type": ["text"]}, Reason.INVALID_EVENT, "needs a string 'type'"),
        ({"type": "text"}, Reason.INVALID_EVENT, "text: 'text' is missing"),
        ({"type": "delta", "id": "never", "delta": "x"}, Reason.INVALID_EVENT, "'never' is missing"),
        ({"type": "delta", "id": {}, "delta": "x"}, Reason.INVALID_EVENT, "TypeError"),
        ({"type": "bare"}, Reason.INVALID_EVENT, "is missing"),
        ({"type": "refuse"}, Reason.PROTOCOL_VIOLATION, "never is right"),
    ],
)
def test_a_bad_event_is_refused_and_the_run_goes_on(event: Any, reason: Reason, detail: str) -> None:
    run = run_of(envelope(0, text("a")), envelope(1, [event, *text("b")]))
    assert [refused.reason for refused in run.refusals] == [reason]
    assert detail in run.refusals[0].detail
    assert run.refusals[0].record.offset == 1
    assert (texts(run), run.next) == (["a", "b"], 3)


def test_what_is_nested_deeply_is_refused_in_a_few_words() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    run = run_of(envelope(0, [deep, {"type": deep}, *text("a")]))
    assert len(run.refusals) == 2
    assert all(len(refused.detail) < 200 for refused in run.refusals)
    assert texts(run) == ["a"]


def test_a_request_that_cant_be_read_is_a_dead_letter_and_the_events_count() -> None:
    run = run_of(envelope(0, text("a"), run={"request": "boom"}))
    assert [(r.reason, "request" in r.detail) for r in run.refusals] == [(Reason.INVALID_EVENT, True)]
    assert texts(run) == ["a"]


def test_what_the_run_info_says_with_a_wrong_type_is_left_out() -> None:
    info = {
        "agent_name": ["x"],
        "model_name": "m",
        "provider_name": 5,
        "started_at": True,
        "parent_run_id": {},
        "more": 1,
    }
    run = run_of(envelope(0, text("a"), run=info))
    (refused,) = run.refusals
    assert "agent_name, provider_name, started_at, parent_run_id" in refused.detail
    context = run.builder.context
    assert (context.agent_name, context.model_name, context.provider_name, context.started_at) == (
        None,
        "m",
        None,
        None,
    )


def test_run_info_may_come_again_and_add() -> None:
    run = run_of(envelope(0, text("a"), run={"model_name": "m"}), envelope(1, text("b"), run={"agent_name": "A"}))
    context = run.builder.context
    assert (context.model_name, context.agent_name) == ("m", "A")


@pytest.mark.parametrize(
    ("stream", "publisher", "verdict"),
    [
        (None, None, "disconnected"),
        (None, "complete", "complete"),
        (None, "aborted", "aborted"),
        ("complete", None, "complete"),
        ("complete", "disconnected", "complete"),
        ("complete", "aborted", "aborted"),
        ("complete", "error", "error"),
        ("error", "complete", "error"),
    ],
)
def test_verdict(stream: str | None, publisher: str | None, verdict: str) -> None:
    last = [{"type": "finish", "as": stream}] if stream else []
    run = run_of(envelope(0, [*text("a"), *last], end=publisher))
    assert run.verdict() == verdict


def test_the_streams_own_end_has_the_brokers_time() -> None:
    run = run_of(envelope(0, text("a")), envelope(1, [{"type": "finish"}]))
    assert run.ended_at == START + 10


@pytest.mark.parametrize("events", [[{}], [{}, {"type": "x"}]])
def test_events_without_a_type_reach_unknown_where_the_wire_has_such(events: list[Envelope]) -> None:
    seen: list[Any] = []
    loose = Dialect("toy", Wire(untyped=True), {}, lambda builder, event: seen.append(event))
    run = Run(envelope(0, events), loose, record())
    run.feed(envelope(0, events), record())
    assert (seen, run.refusals) == (events, [])
