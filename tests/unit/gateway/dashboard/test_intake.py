"""Figures from records as the pipeline writes them."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest

from pipeline.gateway.dashboard.figures import ANY, FIELDS, Reading, Series
from pipeline.gateway.dashboard.intake import Intake
from tests.support.assembled import assembled
from tests.support.gateways import talk
from topics import telemetry, turn_record

AT = 1_768_928_342_002


def sums(intake: Intake) -> dict[str, int]:
    rows = Reading(intake.figures, "total").rows(AT // 1000, AT // 1000)
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
    intake = Intake(idle_ms=1000)
    for _ in range(3):
        intake.take("turns", turn(), AT)
    found = sums(intake)
    assert found["turns"] == 1
    assert found["interrupted"] == found["errors"] == 0
    assert found["cost_nano_usd"] == 6_250_000, "1,000 tokens at 1.25, 500 at 10 dollars a million"
    assert found["output_tokens"] == 0, "tokens come from telemetry, and would count twice"


def test_tokens_count_once() -> None:
    intake = Intake(idle_ms=1000)
    for seq in (0, 0, 1):
        intake.take("telemetry", usage(seq), AT)
    assert (sums(intake)["input_tokens"], sums(intake)["output_tokens"]) == (14, 10)


def of_tenant(intake: Intake, tenant: str) -> dict[str, int]:
    rows = Reading(intake.figures, "total", Series(None, None, tenant)).rows(AT // 1000, AT // 1000)
    return dict(zip(FIELDS, rows[0][2:], strict=True)) if rows else {}


def test_the_same_ids_of_another_tenant_take_nothing_from_the_figures() -> None:
    """Found by the review: whoever sent a turn or telemetry with its ids first kept another tenant's from counting."""
    intake = Intake(idle_ms=1000)
    for tenant in ("evil", "acme"):
        for _ in range(2):
            intake.take("telemetry", usage(0, tenant=tenant), AT)
            intake.take("turns", turn(tenant=tenant), AT)
    assert of_tenant(intake, "acme") == of_tenant(intake, "evil")
    assert (of_tenant(intake, "acme")["turns"], of_tenant(intake, "acme")["input_tokens"]) == (1, 7)


def test_a_turn_of_another_tenant_closes_no_run() -> None:
    intake = Intake(idle_ms=1000)
    (made,) = assembled("vercel-ai", talk(1), end="complete").records
    envelope = {"v": 1, "thread_id": made["thread_id"], "run_id": made["run_id"], "agent_id": "a", "seq": 0, "ts": AT,
                "dialect": "vercel-ai", "events": talk(2), "tenant": "acme"}  # fmt: skip
    intake.take("events", orjson.dumps(envelope), AT)
    intake.take("turns", turn_record.encode({**made, "tenant": "evil"}), AT)
    assert intake.runs.of(ANY, 1)[0] == 1
    intake.take("turns", turn_record.encode({**made, "tenant": "acme"}), AT)
    assert intake.runs.of(ANY, 1)[0] == 0


def test_a_turn_closes_its_run() -> None:
    intake = Intake(idle_ms=1000)
    envelope = {"v": 1, "thread_id": "7d1a0a3e-0f0c-4c34-9a37-0c3d1be2b1a5", "run_id": "r", "agent_id": "a", "seq": 0,
                "ts": AT, "dialect": "vercel-ai", "events": talk(2)}  # fmt: skip
    intake.take("events", orjson.dumps(envelope), AT)
    assert sums(intake)["events"] == len(talk(2))
    assert intake.runs.of(ANY, 1)[0] == 1
    intake.take("turns", turn(thread_id=envelope["thread_id"], run_id="r"), AT)
    assert intake.runs.of(ANY, 1)[0] == 0


def test_dead_letters_are_counted_whatever_they_hold() -> None:
    intake = Intake(idle_ms=1000)
    intake.take("dead-letters", b"\xff\x00", AT)
    intake.take("dead-letters", None, AT)
    assert sums(intake)["dead_letters"] == 2


RUBBISH = [None, b"", b"\xff", b"[]", b'{"v":1}', usage(type=7), usage(data=[1]), usage(agent_id=None),
           turn(turn={"turn_type": "agent", "messages": 7}), turn(turn_id=[]), turn(tenant=5)]  # fmt: skip


@pytest.mark.parametrize(("topic", "value"), list(itertools.product(("events", "turns", "telemetry"), RUBBISH)))
def test_rubbish_stops_nothing(topic: str, value: bytes | None) -> None:
    intake = Intake(idle_ms=1000)
    intake.take(topic, value, AT)
    intake.take("telemetry", usage(99), AT)
    assert sums(intake)["input_tokens"] >= 7
    orjson.dumps(Reading(intake.figures, "tenant").groups)
