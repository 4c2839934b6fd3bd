"""The five large packages have rooms: few, few arrows among them, no circle; import contracts have their layers."""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("turnmill", "topics", "pipeline")
OUTSIDE = ("helm",)  # product code, too: these four had 82,736 lines when their bound was set
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
# What starts programs, or is imported by them, at the root of a package.
DOORS = {"turnmill.auto", "turnmill.command_line", "turnmill.__main__"}


class Bound(NamedTuple):
    """The most rooms of a package, and the most arrows among them: pairs of rooms of which one imports the other."""

    rooms: int
    arrows: int


BOUNDS = {
    "pipeline.stores": Bound(12, 30),
    "pipeline.gateway": Bound(13, 44),
    "pipeline.cli": Bound(12, 20),
    "pipeline.worker": Bound(8, 10),
    "turnmill": Bound(15, 40),
}
# Words that name nothing: a reader has to look up what they stand for.
VAGUE = {"one": 900, "found": 600, "place": 400, "own": 300}
MODULES = 650
LINES = 91_977  # 84,500 are wanted: fifteen wires, labels, alerts, feedback, data sets, links, parking took the rest
WHOLE_SETTINGS = 40  # modules of which a function takes all settings, so that its signature says nothing


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PRODUCT, cache_dir=None)


def room_of(module: str, package: str) -> str:
    """The folder of a package in which a module is; modules at its root share a room, and doors have one."""
    below = module.removeprefix(f"{package}.").split(".")
    if module in DOORS:
        return "the doors"
    return below[0] if (ROOT.joinpath(*package.split("."), below[0])).is_dir() else "the root"


def modules_in(package: str) -> list[str]:
    return sorted(module for module in graph().modules if module.startswith(f"{package}."))


def arrows(package: str) -> set[tuple[str, str]]:
    pairs = {
        (room_of(module, package), room_of(imported, package))
        for module in modules_in(package)
        for imported in graph().find_modules_directly_imported_by(module)
        if imported.startswith(f"{package}.")
    }
    return {(above, below) for above, below in pairs if above != below}


def in_circles(rooms: set[str], pairs: set[tuple[str, str]]) -> set[str]:
    """The rooms that are left when those are taken away, again and again, that import none of the others."""
    left = set(rooms)
    while lowest := {room for room in left if not any(above == room and below in left for above, below in pairs)}:
        left -= lowest
    return left


@pytest.mark.parametrize("package", BOUNDS)
def test_a_package_has_few_rooms_with_few_arrows_and_no_circle(package: str) -> None:
    rooms, pairs = {room_of(module, package) for module in modules_in(package)}, arrows(package)
    assert in_circles(rooms, pairs) == set()
    assert (len(rooms) <= BOUNDS[package].rooms, len(pairs) <= BOUNDS[package].arrows) == (True, True), (
        f"{package} has {len(rooms)} rooms with {len(pairs)} arrows among them; it may have {BOUNDS[package]}"
    )


def test_circles_are_seen() -> None:
    assert in_circles({"a", "b", "c"}, {("a", "b"), ("b", "a"), ("a", "c")}) == {"a", "b"}


@pytest.mark.parametrize("package", BOUNDS)
def test_the_import_contract_has_the_layers_of_its_rooms(package: str) -> None:
    layers = [contract for contract in CONTRACTS if contract["type"] == "layers" and package in contract["containers"]]
    assert [contract["exhaustive"] for contract in layers] == [True]


@pytest.mark.parametrize("package", BOUNDS)
def test_each_room_says_in_a_sentence_what_belongs_there(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    for room in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
        assert text, room
        assert text.endswith("."), room


def product() -> list[Path]:
    return sorted(path for top in PRODUCT for path in (ROOT / top).rglob("*.py"))


def is_sign(path: Path) -> bool:
    """Return True for an `__init__` that only says what belongs into its folder."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) <= 1


def test_words_that_name_nothing_are_rare() -> None:
    words = Counter(word for path in product() for word in re.findall(r"[^\W_]+", path.read_text(encoding="utf-8")))
    assert {word: words[word] for word, most in VAGUE.items() if words[word] > most} == {}


def test_modules_and_lines_stay_within_their_bounds() -> None:
    outside = [path for name in OUTSIDE for path in (ROOT / name).rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in (*product(), *outside)}
    assert sum(not is_sign(path) for path in texts) <= MODULES
    assert sum(text.count("\n") for text in texts.values()) <= LINES


def takes_all_settings(path: Path) -> bool:
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    arguments = (
        argument for node in functions for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    )
    return any(
        re.fullmatch(r"'?(Client)?Settings( \| None)?'?", ast.unparse(argument.annotation))
        for argument in arguments
        if argument.annotation is not None
    )


def test_few_modules_take_all_settings() -> None:
    taking = [str(path.relative_to(ROOT)) for path in product() if takes_all_settings(path)]
    assert len(taking) <= WHOLE_SETTINGS, taking
