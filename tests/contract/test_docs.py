"""Tables of the documentation are what the code says; links lead somewhere."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import turnmill
from pipeline.gateway.dashboard.page import STATIC
from turnmill.errors import Reason

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])


def loaded(path: str) -> ModuleType:
    """A module of the documentation, which is no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "docs" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate, for_agents = loaded("generate.py"), loaded("site/for_agents.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_tables_match_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generate.generated(text) == text, "run `make docs`"


def test_every_table_stands_somewhere() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(generate.TABLES) == set(re.findall(r"<!-- generated: (\S+) -->", text))


def test_reasons_of_dead_letters_are_listed_and_can_be_chosen() -> None:
    page = (ROOT / "docs" / "records.md").read_text(encoding="utf-8").partition("\n## Dead letters\n")[2]
    assert re.findall(r"^\| `(\w+)` \|", page.partition("\n## ")[0], re.MULTILINE) == list(Reason)
    script = (STATIC / "js" / "dead_letters.js").read_text(encoding="utf-8")
    chosen = re.search(r"const REASONS = \[(.*?)\]", script, re.DOTALL)
    assert chosen is not None
    assert re.findall(r'"(\w+)"', chosen[1]) == list(Reason)


@pytest.mark.parametrize("name", generate.DIALECTS)
def test_every_wire_has_a_page_that_says_all_at_a_glance(name: str) -> None:
    text = (ROOT / "docs" / "dialects" / f"{name}.md").read_text(encoding="utf-8")
    glance = generate.GLANCE.search(text)
    assert glance is not None
    assert [line.split("|")[1].strip() for line in glance[1].splitlines()] == list(generate.AT_A_GLANCE)
    assert f"<!-- generated: events-{name} -->" in text
    assert "## What it can't carry\n\n| what | what becomes of it |\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_reference_of_python_has_each_public_name() -> None:
    page = (ROOT / "docs/site/python.md").read_text(encoding="utf-8")
    named = set(re.findall(r":: turnmill\.(\w+)$", page, re.MULTILINE))
    assert named == set(turnmill.__all__)


def test_agents_find_every_page_of_the_index() -> None:
    listed = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    text = for_agents.index("Turnmill", "what it is", listed, "docs")
    assert text.startswith(
        "# Turnmill\n\n> what it is\n\n## You want to try it\n\n- [README](README.md): see it work on"
    )
    assert "\n- [Budgets](docs/budgets.md): bound what tenants, agents and models may use\n" in text
    assert text.count("\n## ") == listed.count("\n## ")
    paths = for_agents.paths(text)
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    outside = {ROOT / "docs" / name for name in ("README.md", "glossary.md")}
    assert {*ROOT.glob("docs/*.md")} - outside - {ROOT / path for path in paths} == set()


def test_the_menu_of_the_site_has_every_page() -> None:
    menu = (ROOT / "docs/site/index.md").read_text(encoding="utf-8")
    assert [page.stem for page in ROOT.glob("docs/*.md") if f"../{page.stem}" not in menu] == []
