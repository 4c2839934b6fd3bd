"""Alerts as values: their settings, when they begin and end, and what their notices say."""

import json
from typing import Any

import pytest

from pipeline.policies.alerts import FIGURES, Alert, Measured, On, parse
from pipeline.settings import load
from pipeline.stores.usage.alerts import MEASURES
from topics import notice
from turnmill.errors import CallerError

COSTS = {"name": "costs", "figure": "cost_usd", "above": 20, "within": "1h"}
DISLIKED = {"name": "disliked", "figure": "feedback", "feedback": "helpful", "below": 0.5, "within": "7d", "by": "user"}
NOW = 1_768_903_200_000


def test_a_list_of_alerts(tmp_path: Any) -> None:
    rows = [COSTS | {"project": "shop", "tenant": "acme"}, DISLIKED | {"least": 5}]
    alerts = parse(json.dumps(rows))
    shop = (("tenant", "acme"), ("project", "shop"))
    assert alerts[0] == Alert("costs", "cost_usd", 20, above=True, within_ms=3_600_000, where=shop)
    week = 7 * 86_400_000
    assert alerts[1] == Alert("disliked", "feedback", 0.5, False, week, "user", least=5, feedback="helpful")
    (tmp_path / "alerts.json").write_text(json.dumps(rows))
    assert load({"TURNMILL_ALERTS": str(tmp_path / "alerts.json")}).alert_list == alerts
    assert load({}).alert_list == ()


@pytest.mark.parametrize(
    "rows",
    [
        {},
        [1],
        [COSTS | {"name": "a b"}],
        [COSTS | {"figure": "tokens"}],
        [COSTS | {"above": True}],
        [COSTS | {"above": 1e300}],
        [COSTS | {"below": 1}],
        [{name: value for name, value in COSTS.items() if name != "above"}],
        [COSTS | {"within": "0h"}],
        [COSTS | {"within": "32d"}],
        [COSTS | {"within": 60}],
        [COSTS | {"by": "thread"}],
        [COSTS | {"by": "user", "user": "ada"}],
        [COSTS | {"by": ["user"]}],
        [COSTS | {"user": None}],
        [COSTS | {"least": 0}],
        [COSTS | {"feedback": "helpful"}],
        [COSTS | {"figure": "feedback"}],
        [COSTS | {"more": 1}],
        [COSTS, COSTS],
    ],
)
def test_what_is_wrong_is_said(rows: Any) -> None:
    with pytest.raises(CallerError, match="TURNMILL_ALERTS: "):
        load({"TURNMILL_ALERTS": json.dumps(rows) if rows else "{"})


def test_every_figure_is_measured() -> None:
    assert {*MEASURES} == {*FIGURES}


def on_now(alert: Alert, known: list[On], now: int, *measured: Measured) -> list[On]:
    return alert.now_on(measured, {on.group: on for on in known}, now)


def test_it_is_on_from_beyond_the_threshold_until_it_is_better_by_a_margin() -> None:
    [costs] = parse(json.dumps([COSTS]))
    assert on_now(costs, [], NOW, Measured("", 20.0, 1)) == [], "at the threshold"
    [began] = on_now(costs, [], NOW, Measured("", 20.1, 1))
    assert (began.since, began.seen, began.data["value"]) == (NOW, NOW, 20.1)
    [stays] = on_now(costs, [began], NOW + 5, Measured("", 18.1, 1))
    assert (stays.since, stays.seen, stays.data["value"]) == (NOW, NOW + 5, 18.1)
    assert on_now(costs, [stays], NOW + 9, Measured("", 18.0, 1)) == []
    [below] = parse(json.dumps([COSTS | {"above": -1}]))
    [began] = on_now(below, [], NOW, Measured("", -0.9, 1))
    assert on_now(below, [began], NOW, Measured("", -1.05, 1)), "a threshold below zero has its margin on the same side"


def test_each_group_is_by_itself_and_too_few_begin_nothing() -> None:
    [disliked] = parse(json.dumps([DISLIKED | {"least": 5}]))
    rows = Measured("ada", 0.4, 5), Measured("bob", 0.1, 4), Measured("eve", 0.5, 9), Measured("", None, 0)
    [ada] = on_now(disliked, [], NOW, *rows)
    assert (ada.group, ada.data["of"]) == ("ada", {"user": "ada"})
    assert on_now(disliked, [ada], NOW, Measured("ada", 0.4, 1)), "it stays on while few are left"
    assert on_now(disliked, [ada], NOW, Measured("ada", None, 0)) == [], "nothing is left"
    assert on_now(disliked, [ada], NOW, Measured("ada", 0.55, 9)) == []


def test_its_notices_have_ids_by_which_they_are_known_again() -> None:
    [costs] = parse(json.dumps([COSTS | {"by": "tenant", "project": "shop"}]))
    acme, nobody = on_now(costs, [], NOW, Measured("acme", 21.0, 1), Measured("", 22.0, 1))
    started, ended = acme.notice(), acme.notice(NOW + 60_000)
    assert started == {
        "v": 1,
        "id": started["id"],
        "type": "alert.started",
        "at": NOW,
        "tenant": "acme",
        "data": {
            "alert": "costs",
            "figure": "cost_usd",
            "above": 20,
            "value": 21.0,
            "within_ms": 3_600_000,
            "of": {"project": "shop", "tenant": "acme"},
            "start": NOW,
        },
    }
    assert (ended["type"], ended["at"], ended["data"]["end"]) == ("alert.ended", NOW + 60_000, NOW + 60_000)
    assert "tenant" not in nobody.notice(), "usage without a tenant is the operator's"
    [later] = on_now(costs, [], NOW + 1, Measured("acme", 21.0, 1))
    ids = [started["id"], ended["id"], nobody.notice()["id"], later.notice()["id"]]
    assert len({*ids}) == 4
    [seen] = on_now(costs, [acme], NOW + 5, Measured("acme", 99.0, 1))
    assert (seen.notice()["id"], seen.notice(NOW + 7)["id"]) == (started["id"], ended["id"])
    for record in (started, ended):
        assert notice.decode(notice.encode(record)) == record
        assert notice.key_of(record) == b"costs"
