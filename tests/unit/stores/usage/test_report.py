"""The forms in which usage goes out."""

import csv
import io

from pipeline.stores.usage.report import SUMMED, Figures, Percentiles, UsageQuery, UsageReport, UsageRow
from pipeline.turns.tokens import COUNTS, NANO

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


def figures_of(**known: int) -> Figures:
    none = Percentiles(None, None, None)
    return Figures(**{**dict.fromkeys(SUMMED, 0), **known}, ttft_ms=none, duration_ms=none)


def test_what_is_unknown_is_null_in_json_and_empty_in_csv_and_never_0() -> None:
    """A response that told input alone, by a model without a price; one without any usage; none at all."""
    some = figures_of(requests=1, turns=1, input_tokens=7, total_tokens=7, unpriced=1)
    report = UsageReport(UsageQuery(("model",)), (UsageRow(None, {"model": "m"}, other=False, figures=some),), some, {})
    costs = ("cost_usd", "cost_told_usd", "cost_computed_usd", "cost_estimated_usd")
    unknown = {name for name, value in report.document()["rows"][0].items() if value is None}
    assert {*costs, *COUNTS} - unknown == {"input_tokens", "total_tokens"}
    (line,) = csv.DictReader(io.StringIO(report.csv()))
    assert [line[name] for name in ("input_tokens", "output_tokens", *costs)] == ["7", "", "", "", "", ""]
    nothing = figures_of(requests=1, turns=1)
    assert (nothing.cost_usd, nothing.known("total_tokens"), nothing.known("errors")) == (None, None, 0)
    assert (figures_of().cost_usd, figures_of().known("total_tokens")) == (0, 0), "nobody has asked a model"


def test_the_parts_of_the_cost_add_up_to_it() -> None:
    figures = figures_of(
        requests=3, total_tokens=9, cost_nano_usd=6 * NANO, told_nano_usd=3 * NANO, assumed_nano_usd=NANO
    )
    assert figures.parts_of_cost == {"told": 3, "computed": 2, "estimated": 1}
    assert figures.cost_usd == 6


def test_no_name_is_a_formula_in_csv_and_each_can_be_read_back() -> None:
    figures = figures_of(requests=1, turns=1)
    rows = tuple(UsageRow(None, {"model": name}, other=False, figures=figures) for name in NAMES)
    report = UsageReport(UsageQuery(("model",)), rows, figures, {})
    cells = [line[0] for line in list(csv.reader(io.StringIO(report.csv(), newline="")))[1:]]
    assert [cell for cell in cells if cell.lstrip(" \u00a0").startswith(tuple("=+-@\t\r\n＝"))] == []
    assert [cell.removeprefix("'") for cell in cells] == [name or "" for name in NAMES]
    assert [row["model"] for row in report.document()["rows"]] == NAMES, "JSON is exact"
