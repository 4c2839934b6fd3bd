"""The forms in which usage goes out."""

from __future__ import annotations

import csv
import io

from pipeline.stores.usage.report import Figures, Percentiles, UsageQuery, UsageReport, UsageRow

NAMES = [
    "=1+1",
    "+1",
    "-1",
    "@cf/meta/llama-3",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    " =1",
    " \u00a0+1",
    "'quoted",
    "gpt-5",
    "a,b",
    None,
]


def test_no_name_is_a_formula_in_csv_and_each_can_be_read_back() -> None:
    none = Percentiles(None, None, None)
    figures = Figures(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, none, none)
    rows = tuple(UsageRow(None, {"model": name}, other=False, figures=figures) for name in NAMES)
    report = UsageReport(UsageQuery(("model",)), rows, figures, {})
    cells = [line[0] for line in list(csv.reader(io.StringIO(report.csv(), newline="")))[1:]]
    assert [cell for cell in cells if cell.lstrip(" \u00a0").startswith(tuple("=+-@\t\r\n＝"))] == []
    assert [cell.removeprefix("'") for cell in cells] == [name or "" for name in NAMES]
    assert [row["model"] for row in report.document()["rows"]] == NAMES, "JSON is exact"
