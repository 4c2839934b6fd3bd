"""Responses beside the answer: in the turn and its total, outside its hash, exports and open questions."""

from typing import Any

import pytest

from pipeline.assembly.builder import Builder
from pipeline.assembly.finish import finish
from pipeline.assembly.parts import Context
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.assembly.telemetry import closing_records
from pipeline.dialects import DIALECTS
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns.canonical import turn_hash
from pipeline.turns.pending import pending
from pipeline.turns.thread_document import thread_document

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
SUMMED = {"input_tokens": 180_000, "output_tokens": 3_500}
SPENT = {"input_tokens": 23_000, "output_tokens": 1_000}


def answered(*, aside: bool) -> Builder:
    builder = Builder(Context(THREAD, "r", "a", "toy", model_name="large"), 1000)
    builder.user_turn([{"part_kind": "user-prompt", "content": "hi"}])
    builder.tool_call("c1", "search", {})
    builder.usage({**SPENT})
    if aside:
        builder.beside("compaction", {**SUMMED}, model="small")
    return builder


def turn_of(builder: Builder) -> Any:
    return finish(builder, "complete", events=1)[-1]["turn"]


def test_it_is_in_the_turn_and_its_total_and_has_no_part_in_the_hash() -> None:
    turn, plain = turn_of(answered(aside=True)), turn_of(answered(aside=False))
    assert turn["messages"][-1] == {
        "message_type": "response",
        "timestamp": "1970-01-01T00:00:01.000Z",
        "agent_id": "a",
        "parts": [],
        "model_name": "small",
        "usage": SUMMED,
        "meta:purpose": "compaction",
    }
    assert turn["messages"][:-1] == plain["messages"]
    assert turn["total_usage"] == {"input_tokens": 203_000, "output_tokens": 4_500}
    assert turn_hash(turn) == turn_hash(plain)
    assert pending(turn) == pending(plain) != []


def test_it_is_added_to_a_total_that_the_wire_tells() -> None:
    builder = answered(aside=True)
    builder.total_usage = {"input_tokens": 30_000, "requests": 3}
    assert turn_of(builder)["total_usage"] == {"input_tokens": 210_000, "output_tokens": 3_500, "requests": 3}


def test_it_is_kept_when_the_turn_broke_off_or_was_over_before() -> None:
    (_, cut_off) = finish(answered(aside=True), "error", events=1)
    assert [m.get("meta:purpose") for m in (cut_off["turn"] or {})["messages"]] == ["compaction"]
    builder = answered(aside=False)
    builder.end_turn("complete")
    builder.beside("title", {**SUMMED})
    turn = turn_of(builder)
    assert (turn["messages"][-1]["meta:purpose"], turn["messages"][-1]["model_name"]) == ("title", "large")


@pytest.mark.parametrize(
    "form", [form for dialect in DIALECTS.values() for form in dialect.formats if not form.is_document]
)
def test_exports_do_not_have_it(form: Any) -> None:
    with_it, without = (
        form.printed(thread_document(THREAD, finish(answered(aside=aside), "complete", events=1)))
        for aside in (True, False)
    )
    assert with_it == without


def test_it_has_a_row_and_the_turn_is_counted_on_that_of_the_answer() -> None:
    record = finish(answered(aside=True), "complete", events=1)[-1]
    answer, aside = usage_rows(record)
    assert (answer["model"], answer["input_tokens"], answer["purpose"], answer["turns"]) == ("large", 23_000, "", 1)
    assert (aside["model"], aside["input_tokens"], aside["purpose"], aside["turns"]) == (
        "small",
        180_000,
        "compaction",
        0,
    )
    assert aside["duration_ms"] is None


def test_tokens_that_only_the_total_has_are_those_of_the_answers_model() -> None:
    builder = answered(aside=True)
    builder.total_usage = {"input_tokens": 30_000, "output_tokens": 1_000}
    *_, rest = usage_rows(finish(builder, "complete", events=1)[-1])
    assert (rest["model"], rest["purpose"], rest["input_tokens"]) == ("large", "", 7_000)


def test_telemetry_has_its_tokens_and_the_numbers_of_the_answers_stay() -> None:
    def told(*, aside: bool) -> list[Any]:
        builder = answered(aside=aside)
        envelope: Any = {"thread_id": THREAD, "run_id": "r", "agent_id": "a", "ts": 1000}
        run = Run(envelope, DIALECTS["vercel-ai"], StoredRecord(b"{}", 0, 1000))
        run.builder = builder
        return closing_records(run, builder, [])

    (aside, answer), (plain,) = told(aside=True), told(aside=False)
    assert (aside["data"], aside.get("model_name"), aside["type"]) == (SUMMED, "small", "data-sys-usage")
    assert answer == plain
    assert aside["seq"] != answer["seq"]
