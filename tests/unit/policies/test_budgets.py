"""Budgets as values: their settings, their windows, and when they speak."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.policies.budgets import Budget, State, parse
from pipeline.settings import load
from topics import notice
from turnmill.errors import CallerError

ONE = {"name": "acme-month", "tenant": "acme", "usd": 250, "per": "month"}


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


def test_a_list_of_budgets(tmp_path: Any) -> None:
    rows = [ONE, {"name": "b", "agent": "a", "model": "m", "tokens": 10, "per": "hour"}]
    found = parse(json.dumps(rows))
    assert found[0] == Budget("acme-month", "nano_usd", 250 * 10**9, "month", "acme")
    assert found[1] == Budget("b", "tokens", 10, "hour", None, "a", "m")
    (tmp_path / "budgets.json").write_text(json.dumps(rows))
    assert load({"TURNMILL_BUDGETS": str(tmp_path / "budgets.json")}).budget_list == found
    assert load({}).budget_list == ()


@pytest.mark.parametrize(
    "rows",
    [
        {},
        [1],
        [{**ONE, "name": ""}],
        [{**ONE, "per": "week"}],
        [{**ONE, "usd": 0}],
        [{**ONE, "usd": True}],
        [{**ONE, "tokens": 5}],
        [{"name": "a", "per": "day"}],
        [{"name": "a", "per": "day", "tokens": 1.5}],
        [{**ONE, "tenant": None}],
        [{**ONE, "more": 1}],
        [ONE, ONE],
    ],
)
def test_what_is_wrong_is_said(rows: Any) -> None:
    with pytest.raises(CallerError, match="TURNMILL_BUDGETS: "):
        load({"TURNMILL_BUDGETS": json.dumps(rows) if rows else "{"})


@pytest.mark.parametrize(
    ("per", "start", "end"),
    [
        ("hour", ms(2026, 12, 31, 23), ms(2027, 1, 1)),
        ("day", ms(2026, 12, 31), ms(2027, 1, 1)),
        ("month", ms(2026, 12, 1), ms(2027, 1, 1)),
    ],
)
def test_windows(per: Any, start: int, end: int) -> None:
    budget = Budget("b", "tokens", 10, per)
    assert budget.window(ms(2026, 12, 31, 23, 59, 59)) == (start, end)
    assert budget.window(start) == (start, end)
    assert budget.window(end)[0] == end


def test_what_counts() -> None:
    assert Budget("b", "tokens", 1, "day").counts(None, None, None)
    of_acme = Budget("b", "tokens", 1, "day", "acme")
    assert [of_acme.counts(tenant, "a", "m") for tenant in ("acme", "globex", None)] == [True, False, False]
    assert Budget("b", "tokens", 1, "day", "").counts(None, "a", "m")
    of_model = Budget("b", "tokens", 1, "day", None, "a", "gpt-4o-2024-08-06")
    asked = ("gpt-4o-2024-08-06", "gpt-4o", "gpt-4", "gpt-4o-mini", "gpt-4o-latest", None)
    assert [of_model.counts(None, "a", model) for model in asked] == [True, True, False, False, False, False]
    assert not of_model.counts(None, "b", "gpt-4o")


def test_a_notice_for_each_level_with_the_same_id_whoever_makes_it() -> None:
    budget = Budget("b", "tokens", 10, "day", "acme", "a", "m")
    ids = {}
    for used, levels in ((7, []), (8, [80]), (9, [80]), (10, [80, 100]), (50, [80, 100])):
        found = State(budget, used, ms(2026, 1, 1), ms(2026, 1, 2)).notices(5)
        assert [one["data"]["level"] for one in found] == levels
        for one in found:
            assert notice.decode(notice.encode(one))["tenant"] == "acme"
            assert ids.setdefault(one["data"]["level"], one["id"]) == one["id"]
    assert len(set(ids.values())) == 2
    tomorrow = State(budget, 10, ms(2026, 1, 2), ms(2026, 1, 3)).notices(5)
    assert not {one["id"] for one in tomorrow} & {*ids.values()}


def test_what_another_tenant_claims_counts_for_half_of_a_budget_over_several() -> None:
    [budget] = parse('[{"name": "all", "tokens": 100, "per": "day"}]')

    def exhausted(tenant: str | None, **used: int) -> bool:
        return State(budget, sum(used.values()), 0, 1, {name.strip("_"): one for name, one in used.items()}).exhausted(
            tenant
        )

    claimed = {"evil": 2**53 - 1, "acme": 10}
    assert exhausted("evil", **claimed)
    assert not exhausted("acme", **claimed)
    assert not exhausted(None, **claimed)
    assert exhausted("acme", evil=2**53 - 1, acme=50), "half is acme's own"
    assert exhausted("acme", evil=60, other=60)
    assert exhausted(None, _=100), "nobody else is there"
    assert State(budget, 100, 0, 1, {"acme": 40, None: 60}).exhausted("acme")
    assert State(budget, 100, 0, 1).exhausted("acme")


def test_a_scope_is_what_counts_and_when() -> None:
    one = {"name": "a", "tokens": 10, "per": "day", "tenant": "acme"}
    same = one | {"name": "b", "tokens": 20}
    others = [one | {"tenant": "\udc80\0"}, one | {"agent": "x"}, one | {"model": "x"}, one | {"per": "hour"}]
    others += [{"name": "a", "usd": 10, "per": "day", "tenant": "acme"}, {"name": "a", "tokens": 10, "per": "day"}]
    scopes = [parse(json.dumps([row]))[0].scope for row in (one, same, *others)]
    assert scopes[0] == scopes[1]
    assert len(set(scopes)) == 1 + len(others)


def test_the_notice_of_a_budget_that_asks_names_its_question() -> None:
    budget = Budget("b", "tokens", 100, "month", enforce="ask")
    window = budget.window(ms(2026, 3, 1))
    first, again = (State(budget, 100, *window).notices(ms(2026, 3, day)) for day in (2, 16))
    assert [one["data"].get("answer_id") for one in first] == [None, budget.question(ms(2026, 3, 2))]
    assert first[0]["id"] == again[0]["id"]
    assert first[1]["id"] != again[1]["id"], "it is asked again"
    plain = State(Budget("b", "tokens", 100, "month"), 100, *window).notices(ms(2026, 3, 2))
    assert "answer_id" not in plain[1]["data"]


def test_a_budget_of_labels_counts_the_runs_that_have_all_of_them() -> None:
    [budget, *_] = parse(json.dumps([{**ONE, "user": "ada", "tag": "beta"}]))
    assert budget.labels == (("user", "ada"), ("tag", "beta"))
    [plain] = parse(json.dumps([ONE]))
    assert budget.scope != plain.scope
    counted = [[("user", "ada"), ("tag", "beta"), ("tag", "eu")], [("user", "ada")], []]
    assert [budget.counts("acme", None, None, labels) for labels in counted] == [True, False, False]
    [told, _] = State(budget, budget.limit, 0, 1).notices(5)
    assert told["data"]["labels"] == {"user": "ada", "tag": "beta"}
    assert notice.decode(notice.encode(told)) == told
    with pytest.raises(ValueError, match="'user' is a string"):
        parse(json.dumps([{**ONE, "user": 7}]))
