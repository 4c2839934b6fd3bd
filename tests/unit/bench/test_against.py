"""Another revision beside today's: its table, its verdicts, and that each row is measured."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.bench import against, probes
from tests.bench.against import LOADS, ROWS, Compared, Figures, Row, Side, compared
from tests.bench.command import bench
from tests.support.places import ROOT
from turnmill.errors import CallerError

SMALL = {"bare": 10, "indexed": 10, "long": 60, "tick": 20, "open": 3000}
LATE = Row("late", "long", "late", "{:.1f} ms", 0.5)
APPEND = Row("append", "long", "append", "{:.1f} ms", 1.05, of="append-short")


@dataclass
class Made:
    """A side with given figures, one a call."""

    given: list[Figures]
    asked: list[str] = field(default_factory=list)

    def figures(self, measurement: str) -> Figures:
        self.asked.append(measurement)
        return self.given[len(self.asked) - 1]


def figures(late: float, append: float = 1.0, short: float = 1.0) -> Figures:
    return {"late": late, "append": append, "append-short": short}


def beside(then: list[Figures], now: list[Figures], *rows: Row) -> list[Compared]:
    sides: Any = Made(then), Made(now)
    done = compared(sides, rows, len(then), lambda _: None)
    assert all(side.asked == ["long"] * len(then) for side in sides), "each measurement once a repetition"
    return done


def test_ratios_are_of_figures_of_the_same_repetition() -> None:
    (late,) = beside([figures(10), figures(40), figures(20)], [figures(5), figures(10), figures(16)], LATE)
    assert (late.then, late.now, late.ratio) == (20, 10, 0.5)
    assert late.is_met
    assert late.cells(targets=True) == ("late", "20.0 ms", "10.0 ms", "0.500", "≤ 0.5", "met")
    assert late.cells(targets=False) == ("late", "20.0 ms", "10.0 ms", "0.500")


def test_a_row_may_be_of_todays_figures_alone() -> None:
    late, append = beside([figures(10, 9, 1)], [figures(5.1, 2.2, 2)], LATE, APPEND)
    assert append.ratio == pytest.approx(1.1)
    assert [one.is_met for one in (late, append)] == [False, False]


@pytest.mark.parametrize("name", probes.PROBES)
def test_each_measurement_has_the_figures_of_its_rows(name: str) -> None:
    command = [sys.executable, "-P", probes.__file__, name, str(SMALL[name])]  # alone: it measures memory, too
    told = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    measured = json.loads(told.stdout)
    rows = [row for row in ROWS if row.measured_by == name]
    assert {figure for row in rows for figure in (row.figure, row.of) if figure is not None} == measured.keys()
    assert all(value > 0 for value in measured.values())


def test_costs_of_loads_are_those_that_the_benchmark_prints() -> None:
    load = {"name": "text-8", "contenders": [{"name": "turns", "cpu_us_an_event": 1.5}]}
    unknown = {"name": "fleet", "contenders": [{"name": "turns", "cpu_us_an_event": None}]}
    assert dict(against._costs({"loads": [load, unknown]})) == {"text-8 turns": 1.5}
    assert {row.figure for row in ROWS if row.measured_by == LOADS} <= {
        f"{load} {who}" for load in ("text-1", "text-8", "wires", "fleet") for who in ("turns", "sqlite")
    }


@pytest.mark.parametrize(("options", "late", "status"), [(["--targets"], 4, 0), (["--targets"], 6, 1), ([], 6, 0)])
def test_the_command_exits_with_1_where_a_target_is_missed(
    options: list[str], late: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = Made([{**figures(10), "newest": 1.0}])
    monkeypatch.setattr(against, "other", lambda *_: made)
    monkeypatch.setattr(against, "today", lambda: Made([{**figures(late), "newest": 0.01}]))
    monkeypatch.setattr(against, "ROWS", (LATE,))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\n")
    done = CliRunner().invoke(bench, ["--against", "REV", "--only", "long", "--into", str(page), *options])
    assert done.exit_code == status, done.output
    assert ("≤ 0.5" in done.output) == ("≤ 0.5" in page.read_text()) == bool(options)
    assert f"| {late:.1f} ms |" in page.read_text()


def test_what_can_not_be_compared_is_refused() -> None:
    for options, words in (
        (["--targets"], "--against"),
        (["--against", "HEAD", "--only", "latency"], "there are bare"),
        (["--against", "no-such-revision"], "git log" if (ROOT / ".git").exists() else "a clone"),
    ):
        refused = CliRunner().invoke(bench, options).exception
        assert isinstance(refused, CallerError)
        assert words in str(refused)


def test_a_measurement_that_fails_says_why(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(CallerError, match="it broke"):
        Side(tmp_path, python).figures("bare")
