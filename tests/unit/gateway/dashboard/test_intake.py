"""Figures from records as the pipeline writes them."""

import itertools
from typing import Any

import orjson
import pytest

from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.gateway.dashboard.figures import FIELDS, TAIL_CHARACTERS, FiguresReading, Intake, Series
from pipeline.gateway.live.event_record import EventRecord
from tests.support.assembled import THREAD_ID, assembled
from tests.support.gateways import talk
from topics import telemetry, turn_record

AT = 1_768_928_342_002


def sums(intake: Intake) -> dict[str, int]:
    rows = FiguresReading(intake.figures, "total").rows(AT // 1000, AT // 1000)
    return dict(zip(FIELDS, rows[0][2:], strict=True)) if rows else {}


def turn(**more: Any) -> bytes:
    usage = {"type": "data-sys-usage", "data": {"input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500}}
    events = [*talk(3)[:-2], usage, *talk(3)[-2:]]
    (record,) = assembled(
        "vercel-ai", events, run={"model_name": "gpt-5", "provider_name": "openai"}, end="complete"
    ).records
    return turn_record.encode({**record, **more})  # type: ignore[typeddict-item]


def usage(seq: int = 0, **more: Any) -> bytes:
    record = {"v": 1, "thread_id": "t", "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "seq": seq, "ts": AT}
    return telemetry.encode(
        {**record, "type": "data-sys-usage", "data": {"inputTokens": 7, "outputTokens": 5}, **more}  # type: ignore[typeddict-item]
    )


def test_a_turn_counts_once_with_the_cost_that_the_store_gives_it() -> None:
    intake = Intake()
    for _ in range(3):
        intake.take("turns", turn(), AT)
    found = sums(intake)
    assert found["turns"] == 1
    assert found["interrupted"] == found["errors"] == 0
    assert found["cost_nano_usd"] == 6_250_000, "1,000 tokens at 1.25, 500 at 10 dollars a million"
    assert found["output_tokens"] == 0, "tokens come from telemetry, and would count twice"


def test_responses_without_a_price_are_counted_beside_the_cost() -> None:
    intake = Intake()
    document = orjson.loads(turn())
    for message in document["turn"]["messages"]:
        message["model_name"] = "nobody-knows-it"
    intake.take("turns", orjson.dumps(document), AT)
    assert (sums(intake)["cost_nano_usd"], sums(intake)["unpriced"]) == (0, 1)
    intake.take("turns", turn(turn_id="another"), AT)
    assert (sums(intake)["cost_nano_usd"], sums(intake)["unpriced"]) == (6_250_000, 1)


def test_what_is_imported_is_not_live() -> None:
    intake, runs = Intake(), RunList(3_600_000, UsualSilence())
    intake.take("turns", turn(imported=True), AT)
    for seq, info in enumerate(({"imported": True}, {})):  # that a run is imported stands in its first record
        envelope = {"v": 1, "thread_id": THREAD_ID, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai"}
        envelope |= {"seq": seq, "ts": AT, "events": talk(1)[:1]}
        record = EventRecord(0, seq, AT, orjson.dumps({**envelope, "run": info}))
        record.run = runs.take(record.envelope or {}, seq, AT)
        intake.event(record)
    assert sums(intake) == {}


def test_tokens_count_once() -> None:
    intake = Intake()
    for seq in (0, 0, 1):
        intake.take("telemetry", usage(seq), AT)
    assert (sums(intake)["input_tokens"], sums(intake)["output_tokens"]) == (14, 10)


def of_tenant(intake: Intake, tenant: str) -> dict[str, int]:
    rows = FiguresReading(intake.figures, "total", Series(None, None, tenant)).rows(AT // 1000, AT // 1000)
    return dict(zip(FIELDS, rows[0][2:], strict=True)) if rows else {}


def test_the_same_ids_of_another_tenant_take_nothing_from_the_figures() -> None:
    """Found by the review: whoever sent a turn or telemetry with its ids first kept another tenant's from counting."""
    intake = Intake()
    for tenant in ("evil", "acme"):
        for _ in range(2):
            intake.take("telemetry", usage(0, tenant=tenant), AT)
            intake.take("turns", turn(tenant=tenant), AT)
    assert of_tenant(intake, "acme") == of_tenant(intake, "evil")
    assert (of_tenant(intake, "acme")["turns"], of_tenant(intake, "acme")["input_tokens"]) == (1, 7)


def event(runs: RunList, seq: int, events: list[dict[str, Any]], **more: Any) -> EventRecord:
    envelope = {"v": 1, "thread_id": "7d1a0a3e-0f0c-4c34-9a37-0c3d1be2b1a5", "run_id": "r", "agent_id": "a", "seq": seq,
                "ts": AT, "dialect": "vercel-ai", "events": events, **more}  # fmt: skip
    record = EventRecord(0, seq, AT, orjson.dumps(envelope))
    assert record.envelope is not None
    record.run = runs.take(record.envelope, record.offset, record.at)
    return record


def test_events_count_for_the_model_of_their_run() -> None:
    intake, runs = Intake(), RunList(1000, UsualSilence())
    intake.event(event(runs, 0, talk(2), run={"model_name": "gpt-5"}))
    intake.event(event(runs, len(talk(2)), talk(1)))
    rows = FiguresReading(intake.figures, "total", Series("gpt-5", "a", "")).rows(AT // 1000, AT // 1000)
    assert dict(zip(FIELDS, rows[0][2:], strict=True))["events"] == len(talk(2)) + len(talk(1))


def test_only_the_end_of_a_text_is_held_and_of_the_own_run_alone() -> None:
    intake, runs = Intake(), RunList(1000, UsualSilence())
    mine = event(runs, 0, [{"type": "text-delta", "delta": "x" * 10_000}], tenant="acme")
    theirs = event(runs, 0, [{"type": "text-delta", "delta": "theirs"}], tenant="evil")
    for one in (mine, theirs, event(runs, 1, [{"type": "text-delta", "delta": " end"}], tenant="acme")):
        intake.event(one)
    assert mine.run is not None
    assert theirs.run is not None
    assert mine.run.text == "x" * (TAIL_CHARACTERS - 4) + " end"
    assert theirs.run.text == "theirs"


def test_dead_letters_are_counted_whatever_they_hold() -> None:
    intake = Intake()
    intake.take("dead-letters", b"\xff\x00", AT)
    intake.take("dead-letters", None, AT)
    assert sums(intake)["dead_letters"] == 2


RUBBISH = [None, b"", b"\xff", b"[]", b'{"v":1}', usage(type=7), usage(data=[1]), usage(agent_id=None),
           turn(turn={"turn_type": "agent", "messages": 7}), turn(turn_id=[]), turn(tenant=5)]  # fmt: skip


@pytest.mark.parametrize(("topic", "value"), list(itertools.product(("turns", "telemetry"), RUBBISH)))
def test_rubbish_stops_nothing(topic: str, value: bytes | None) -> None:
    intake = Intake()
    intake.take(topic, value, AT)
    intake.take("telemetry", usage(99), AT)
    assert sums(intake)["input_tokens"] >= 7
    orjson.dumps(FiguresReading(intake.figures, "tenant").groups)
