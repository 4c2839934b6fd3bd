"""Medians, ratios and tables of the benchmark."""

from typing import Any

import pytest

from tests.bench import report
from tests.bench.capture import Captured
from tests.bench.contenders import CONTENDERS
from tests.bench.latency import Latency
from tests.bench.loads import LOADS, Script, fleet
from tests.bench.memory import Backlog, OpenTurns
from tests.bench.proxy import Proxied
from tests.bench.publishing import Publishing
from tests.bench.result import Measured, percentile
from tests.bench.results import Result, Suite
from tests.bench.scale import Grown, Processes, Scale
from tests.bench.suite import APART, MEASUREMENTS, Plan
from tests.bench.targets import aims
from turnmill.errors import CallerError

WHERE: dict[str, Any] = {
    "core": "interpreted",
    "cpu": "CPU",
    "cores": 2,
    "system": "Linux",
    "python": "3",
    "packages": {"kafka": "4"},
    "command": "turnmill bench",
    "load": 0.1,
    "load_after": 0.2,
}


def measured(*rates: float) -> list[Measured]:
    return [Measured(1000, 1000 / rate, cpu=0.004) for rate in rates]


def result() -> Result:
    return Result(LOADS["text-1"], {"raw": measured(200, 100, 300), "turns": measured(100, 40, 90)})


def test_ratios_are_formed_within_a_repetition() -> None:
    assert result().rate("turns") == pytest.approx(90)
    assert result().ratio("turns", "raw") == pytest.approx(0.4)  # of 0.5, 0.4, 0.3
    assert result().ratio("turns", "quix") is None
    assert result().cost("turns") == pytest.approx(4.0)


def test_a_cost_that_the_system_does_not_tell_is_no_figure() -> None:
    unknown = Result(LOADS["text-1"], {"raw": [Measured(1000, 1.0)]})
    assert unknown.cost("raw") is None
    assert "| – |" in report.markdown(Suite(results=[unknown]), WHERE)


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (95, 95), (99, 99), (100, 100)])
def test_percentiles_are_values_that_were_measured(percent: int, expected: float) -> None:
    assert percentile([float(n) for n in range(1, 101)], percent) == expected


def test_the_tables_as_markdown() -> None:
    suite = Suite(
        results=[result()],
        open_turns=[OpenTurns(1_000, 100e6, 110e6), OpenTurns(20_000, 290e6, 300e6)],
        left_out={"quix": "a package"},
    )
    text = report.markdown(suite, WHERE)
    assert "| Turnmill to the turns topic | 90 | 4.00 | 0.40 |" in text
    assert "| a turn more | 10.0 KB | 10.0 KB |" in text
    assert f"Not measured: {CONTENDERS['quix'].title}. It needs a package." in text


def test_what_was_aimed_at_and_by_how_much_it_was_missed() -> None:
    suite = Suite(
        results=[result()],
        latencies=[Latency("sqlite", [100.0, 200.0, 300.0], 100e6)],
        backlogs=[Backlog(1_000_000, 120e6), Backlog(5_000_000, 140e6)],
        open_turns=[OpenTurns(1_000, 100e6, 110e6), OpenTurns(20_000, 290e6, 300e6)],
        publishing=[Publishing(1, {"plain": 0.1, "tee": 0.2, "middleware": 1.1})],
        captured=[
            Captured(
                1,
                {"plain": 0.1, "run": 0.2, "client": 0.3},
                {"plain": [49.0, 50.0, 51.0], "run": [51.0], "client": [52.0]},
                {"plain": [0.2], "run": [0.6], "client": [0.4]},
            )
        ],
    )
    rows = {aim.what: aim.row()[1:] for aim in aims(suite)}
    turns, raw = CONTENDERS["turns"].title, CONTENDERS["raw"].title
    assert rows[f"{LOADS['text-1'].title}: {turns}, of: {raw}"] == ("0.40", "≥ 0.67", "missed by 40%")
    assert rows["p99 from `end` to the rows, sqlite"] == ("300 ms", "≤ 80 ms", "missed by 275%")
    assert rows["memory at different lags, the farthest from their mean"] == ("17%", "≤ 10%", "missed by 67%")
    assert rows["memory of an open turn with 5 KB of text"] == ("10.0 KB", "≤ 20.0 KB", "met")
    assert rows["`run.tee` with 1 stream(s) of 50 tokens/s, of a core each"] == ("1.00%", "≤ 1.50%", "met")
    assert rows["a script with one call, captured by `turnmill run`: longer by"] == (
        "0.40 s",
        "≤ 0.30 s",
        "missed by 33%",
    )
    text = report.markdown(suite, WHERE)
    assert "| met |" in text
    assert "| 1 | `turnmill run` | 400 | 2.00 × | 51.00 ms | +1.00 ms, 1.02 × | +0.40 s |" in text


def test_what_is_aimed_at_in_cpu() -> None:
    def costing(us: float) -> list[Measured]:
        return [Measured(1_000_000, 1.0, cpu=us)]

    stores = {"sqlite-bare": costing(4.8), "sqlite": costing(6.0), "postgres-bare": [Measured(1, 1.0)]}
    text = Result(LOADS["text-1"], {"turns": costing(4.0), **stores})
    mixed = Result(fleet([Script("vercel-ai", [{}])], runs=1), {"turns": costing(6.0), "sqlite": costing(9.0)})
    suite = Suite(results=[text, mixed])
    found = {aim.what: aim.row()[1:] for aim in aims(suite)}
    turns, store, bare = (CONTENDERS[name].title for name in ("turns", "sqlite", "sqlite-bare"))
    beyond = "CPU a turn beyond the way to the turns topic, "
    assert found[f"{beyond}{LOADS['text-1'].title}: {bare}"] == ("120 µs", "≤ 120 µs", "met")
    assert found[f"{beyond}{LOADS['text-1'].title}: {store}"] == ("300 µs", "≤ 220 µs", "missed by 36%")
    assert len([what for what in found if what.startswith(beyond)]) == 2
    table = "| | SQLite, turns alone | SQLite, and both | Postgres, turns alone |"
    assert table in report.markdown(suite, WHERE).replace("|  |", "| |")
    assert f"| {LOADS['text-1'].title} | 120 | 300 | – |" in report.markdown(suite, WHERE)
    assert found[f"CPU an event, mixed fleet: {turns}"] == ("6.0 µs", "≤ 5.0 µs", "missed by 20%")
    assert found[f"CPU an event, mixed fleet: {store}"] == ("9.0 µs", "≤ 10.0 µs", "met")
    assert not [what for what in found if what.startswith("CPU") and "Postgres" in what]


def test_what_the_proxy_adds() -> None:
    ms = {mode: [number / 10 for number in range(100)] for mode in ("direct", "passed", "published")}
    cpu = {"direct": 0.0, "passed": 0.5, "published": 1.0}
    suite = Suite(proxy=Proxied(ms, dict.fromkeys(cpu, 0.5), cpu))
    assert "| the provider alone | 4.9 ms | 9.4 ms | 9.8 ms | – | – |" in report.markdown(suite, WHERE)
    assert "| through the proxy, published | 4.9 ms | 9.4 ms | 9.8 ms | 100 | 3.0 × |" in report.markdown(suite, WHERE)
    assert report.as_json(suite, WHERE)["proxy"]["passed"]["ratio"] == 2.0


def test_how_a_worker_grows() -> None:
    processes = [Processes(1, Measured(1000, 10, cpu=0.002)), Processes(4, Measured(1000, 5))]
    grown = [Grown(480, 100_000, 98_765, 2.5, 1.75, 140e6, 0.012, 0.5, 1.25)]
    suite = Suite(scale=Scale(processes, grown))
    text = report.markdown(suite, WHERE)
    assert "| 1 | 100 | 2.00 |" in text
    assert "| 4 | 200 | – |" in text
    assert "| 480 | 100,000 | 98,765 | 2.5 s | 1.8 s | 140 MB | 0.50 s | 1.25 s | 1.2% |" in text
    assert report.as_json(suite, WHERE)["scale"]["grown"][0]["entries"] == 98_765


def test_the_tables_go_between_the_marks_of_a_page() -> None:
    page = "before\n<!-- measured -->\nold\n<!-- end -->\nafter\n"
    assert report.put_into(page, r"new \1") == "before\n<!-- measured -->\n\nnew \\1\n<!-- end -->\nafter\n"
    with pytest.raises(CallerError, match="no place"):
        report.put_into("no marks", "new")


def test_everything_is_planned_or_what_is_named() -> None:
    whole = (*Plan.of([], everything=True, peers=False).measurements, *APART)
    assert whole == MEASUREMENTS, "all but those that take as long as the others"
    assert "quix" in Plan.of([], everything=False, peers=True).contenders
    named = Plan.of(["text-1", "turns"], everything=False, peers=False)
    assert (list(named.measurements), list(named.contenders)) == (["text-1"], ["turns"])
    with pytest.raises(CallerError, match="no speed here"):
        Plan.of(["speed"], everything=False, peers=False)
