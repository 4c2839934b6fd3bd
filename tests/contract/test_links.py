"""Links in Markdown lead to files and headings that exist; from docs/README.md one comes to every page of docs/."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "README.md"
MADE = {"node_modules", "dist"}  # folders whose pages are not ours
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in MADE for part in page.relative_to(ROOT).parts)
)
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
CODE_PATH = re.compile(r"`((?:pipeline|turnmill|topics|tests|helm|docs|examples)/[\w./-]*)`")
INVENTED = re.compile(r"[A-Z]{3,}|toy|alarm")  # of a path that a reader is to make: `pipeline/dialects/NAME/`


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """The links to files of this repository -> (as written, file, anchor)."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    for inline, attribute in LINK.findall(text):
        link = inline or attribute
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        yield link, (page.parent / path).resolve() if path else page, anchor


def dead(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    return [
        link
        for link, file, anchor in links(page)
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors(page: Path) -> None:
    assert dead(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_files_exist(page: Path) -> None:
    named = set(CODE_PATH.findall(prose(page)))  # in blocks of code a path may be of somewhere else
    assert sorted(path for path in named if not INVENTED.search(path) and not (ROOT / path).exists()) == []


def test_every_page_is_on_the_map() -> None:
    reached, waiting = {MAP}, [MAP]
    while waiting:
        for _, file, _ in links(waiting.pop()):
            if file.suffix == ".md" and file.is_relative_to(ROOT / "docs") and file not in reached:
                reached.add(file)
                waiting.append(file)
    assert sorted(str(page) for page in (ROOT / "docs").rglob("*.md") if page not in reached) == []


def test_the_map_is_reached_from_the_readme() -> None:
    assert MAP in {file for _, file, _ in links(ROOT / "README.md")}


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `title`, twice\n\n## Part\n\n[a](#a-title-twice) [b](#party) [c](gone.md) [d](#part)\n")
    assert dead(page) == ["#party", "gone.md"]
