"""No page has a figure of its own: each is in a page under `results/`, which a command or its author has measured."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guarantees.md", "docs/performance.md", "docs/reliability.md")
NUMBER = r"(?<![\w.#])(\d[\d,]*(?:\.\d+)?)"
UNIT = r"\s?(?:µs|ms|s|min|minutes|hours|MB|GB|%|events/s|×|million)(?![\w/])"
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)  # commands and settings are no measurements


def measured() -> set[str]:
    pages = (path.read_text(encoding="utf-8") for path in (ROOT / "results").glob("*.md"))
    return {number for page in pages for number in re.findall(NUMBER, page)}


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_a_page_is_in_the_results(page: str) -> None:
    text = CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert set(re.findall(NUMBER + UNIT, text)) - measured() == set()
