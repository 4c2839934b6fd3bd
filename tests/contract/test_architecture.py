"""docs/architecture.md describes the packages that there are, from the bottom up, as the import contract has them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
POINTS = ["Holds", "May touch", "Must not", "State", "Called by"]


def folder(name: str) -> Path:
    return ROOT.joinpath(*name.split("."))


def sections() -> dict[str, str]:
    """Package -> what the page says of it, in the order of the page."""
    return {
        found[1]: found[2] for found in re.finditer(r"^### `([\w.]+)`\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    }


def packages() -> set[str]:
    """The packages at the root, those of `pipeline` one by one."""
    parts = {f"pipeline.{found.parent.name}" for found in (ROOT / "pipeline").glob("*/__init__.py")}
    return {"turnmill", "topics", *parts}


def test_every_package_has_a_section() -> None:
    assert set(sections()) == packages()


def test_sections_follow_the_floors_from_the_bottom_up() -> None:
    layers = next(contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
    floor_of = {name.strip(): number for number, layer in enumerate(reversed(layers)) for name in layer.split("|")}
    assert packages() <= set(floor_of), "the import contract leaves a package out"
    order = [floor_of[name] for name in sections()]
    assert order == sorted(order)


def test_each_section_says_what_the_package_may_touch_and_who_calls_it() -> None:
    said = {name: re.findall(r"^- \*\*([^*]+)\*\*", text, re.MULTILINE) for name, text in sections().items()}
    assert said == dict.fromkeys(said, POINTS)


def test_what_touches_nothing_is_what_the_contract_forbids_io() -> None:
    pure = {name for name, text in sections().items() if "- **May touch** nothing" in text}
    forbidden = next(contract["source_modules"] for contract in CONTRACTS if contract["type"] == "forbidden")
    assert pure == {name for name in forbidden if name in packages()}


def test_files_that_the_page_names_with_a_class_hold_it() -> None:
    modules = {
        name: folder("pipeline.worker.host") / file for name, file in (("Stage", "commits.py"), ("Work", "work.py"))
    }
    texts = {name: file.read_text(encoding="utf-8") for name, file in modules.items()}
    named = re.findall(r"`(Stage|Work)\.(\w+)`", PAGE)
    assert named
    assert [(name, method) for name, method in named if f"def {method}(" not in texts[name]] == []
