"""Which open runs a budget stops, and what of their own use it counts before they are stored."""

import json
from typing import Any

import pytest

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.control.budget_stops import OpenUse, to_stop
from pipeline.policies.budgets import Budget, State, parse
from pipeline.settings import Settings
from topics.state import RunKey
from topics.telemetry import OPEN_USAGE, TelemetryRecord

BUDGET = Budget("b", "tokens", 100, "hour", enforce="stop")
NOW = 5_000


def run(name: str, tenant: str | None = None, **more: Any) -> ListedRun:
    return ListedRun(RunKey(tenant, "t", name), "a", "vercel-ai", 0, 0, 0, 0, **more)


def usage(name: str, total: int, seq: int = 0, tenant: str | None = None, **more: Any) -> TelemetryRecord:
    data = {"input_tokens": total - 1, "output_tokens": 1, "total_tokens": total}
    record: Any = {"v": 1, "thread_id": "t", "run_id": name, "agent_id": "a", "dialect": "vercel-ai", "seq": seq}
    record |= {"ts": 0, "type": "data-sys-usage", "data": data, **more}
    return record if tenant is None else {**record, "tenant": tenant}


def state(used: int, by: dict[str | None, int] | None = None, **more: Any) -> State:
    budget = Budget(**{"name": "b", "unit": "tokens", "limit": 100, "per": "hour", "enforce": "stop", **more})
    return State(budget, used, 0, 10_000, {"": used} if by is None else by)


def stopped(states: list[State], runs: list[ListedRun], use: OpenUse | None = None) -> list[str]:
    whole = [one if use is None else one.with_more(use.of(one.budget, runs)) for one in states]
    return [run.key.run_id for _, run in to_stop(whole, runs, NOW)]


def test_a_used_up_budget_stops_all_runs_of_its_scope() -> None:
    runs = [run("r1"), run("r2"), run("old", imported=True)]
    assert stopped([state(99)], runs) == []
    assert stopped([state(100)], runs) == ["r1", "r2"]
    assert stopped([state(100, agent="other")], runs) == []
    assert stopped([State(BUDGET, 100, 0, NOW)], runs) == []  # its hour is over


def test_what_an_open_run_has_said_counts_once() -> None:
    use = OpenUse(Settings().price_list)
    for record in (usage("r1", 60), usage("r1", 60), usage("r1", 30, 1), usage("r2", 5, derived=True)):
        use.add(record)
    runs = [run("r1"), run("r2")]
    assert stopped([state(5)], runs, use) == []
    assert stopped([state(10)], runs, use) == ["r1", "r2"]
    use.keep([RunKey(None, "t", "r2")])
    assert stopped([state(10)], runs, use) == []


def test_what_workers_tell_of_an_open_run_counts_once() -> None:
    use = OpenUse(Settings().price_list)
    for total in (30, 60):
        row = {"model_name": "m", "input_tokens": total - 1, "output_tokens": 1, "total_tokens": total}
        use.add(usage("r1", 0, total, type=OPEN_USAGE, data={"used": [row]}))
    use.add(usage("r1", 60, 1000))  # a stream that says at its end what all have used
    use.add(usage("r1", 60, 1001, derived=True))
    assert stopped([state(39)], [run("r1")], use) == []
    assert stopped([state(40)], [run("r1")], use) == ["r1"]


def test_each_call_of_an_open_run_has_the_price_of_its_size() -> None:
    """gpt-5.4 costs $2.50 for a million tokens of input, and $5.00 in calls of more than 272,000 (genai-prices)."""
    budget = Budget("b", "nano_usd", 10**9, "hour", enforce="stop")
    named = {"model_name": "gpt-5.4", "provider_name": "openai"}
    for sizes, summed, nano in (
        ([60_000] * 5, False, 5 * 150_000_000),
        ([300_000], False, 1_500_000_000),
        ([300_000], True, 750_000_000),
    ):
        use = OpenUse(Settings().price_list)
        rows = [{**named, "input_tokens": size, "meta:summed": summed} for size in sizes]
        use.add(usage("r1", 0, 1, type=OPEN_USAGE, ts=1_795_000_000_000, data={"used": rows}))
        assert use.of(budget, [run("r1")]) == {"": nano}


def test_a_tenant_uses_up_its_own_share_alone() -> None:
    use = OpenUse(Settings().price_list)
    use.add(usage("r1", 100, tenant="acme"))
    runs = [run("r1", "acme"), run("r2", "globex")]
    assert stopped([state(0, {})], runs, use) == ["r1"]
    assert stopped([state(0, {}, tenant="globex")], runs, use) == []


@pytest.mark.parametrize("enforce", ["notice", "refuse", "stop", "ask"])
def test_a_setting_says_what_a_budget_does(enforce: Any) -> None:
    rows = [{"name": "a", "tokens": 1, "per": "day", "enforce": enforce}, {"name": "b", "tokens": 1, "per": "day"}]
    one, other = parse(json.dumps(rows), "refuse")
    assert (one.enforce, other.enforce) == (enforce, "refuse")
    with pytest.raises(ValueError, match="enforce"):
        parse('[{"name": "a", "tokens": 1, "per": "day", "enforce": "pray"}]')
