"""That every long command finds the page of its results, and leaves the rest of it as it is."""

from pathlib import Path

import pytest

from tests.bench.report import put_into
from tests.chaos import report

PAGES = ("benchmark", "chaos", "neighbours", "restarts", "simulation", "soak")


@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_a_place_for_its_results(name: str) -> None:
    page = (report.RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert page.count("<!-- measured -->") == 1
    assert "\n| new |\n" in put_into(page, "| new |\n")


def test_results_replace_those_of_the_run_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    page = tmp_path / "soak.md"
    page.write_text("# Soak\n\n<!-- measured -->\n\nold\n\n<!-- end -->\n\nA note.\n", encoding="utf-8")
    report.write_results("soak", "| lag | 7 |\n")
    assert page.read_text(encoding="utf-8") == "# Soak\n\n<!-- measured -->\n\n| lag | 7 |\n\n<!-- end -->\n\nA note.\n"
