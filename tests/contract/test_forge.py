"""What a forge reads: its files are well formed, and name the commands and Pythons that there are."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
ALWAYS = {"help", "setup", "tools", "clean", "lint", "format", "pytest", "bytecode", "demo", "docs", "chart", "release"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", sorted(FORGE.rglob("*.yml")), ids=lambda path: path.name)
def test_a_file_is_well_formed(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_commands_that_there_are(path: Path) -> None:
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    run = "\n".join(step.get("run", "") for step in steps)
    called = {word for line in re.findall(r"\bmake ([a-z -]+)", run) for word in line.split()}
    assert called <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_commit_and_workflows_may_only_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    actions = re.findall(r"uses: (.*)", text)
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)] == []
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_what_is_in_no_workflow_is_listed() -> None:
    """A workflow runs each target and program; CONTRIBUTING lists the others, and says when people run them."""
    nightly = yaml.safe_load((FORGE / "workflows" / "nightly.yml").read_text())
    commands = re.search(r"^COMMANDS='\n(.*?)'$", (ROOT / ".ci" / "test-all").read_text(), re.MULTILINE | re.DOTALL)
    assert commands is not None
    long = dict(line.split(" ", 1) for line in commands[1].splitlines())
    called = {name: {*line.partition(" ARGS=")[0].split()} for name, line in long.items()}
    assert set().union(*called.values()) <= TARGETS
    by_night = nightly["jobs"]["long"]["strategy"]["matrix"]["command"]
    text = "".join(path.read_text(encoding="utf-8") for path in (*WORKFLOWS, ROOT / ".ci" / "run"))
    runs = {word for words in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", text) for word in words.split()}
    runs |= set().union(*(called[name] for name in by_night))
    assert (TARGETS - runs - ALWAYS) | programs_that_nothing_starts() == listed()


def listed() -> set[str]:
    """Return what the table of CONTRIBUTING says that nothing runs: targets, and files of programs."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("Nothing runs these by itself")[2]
    table = text.partition("\n\n|")[2].partition("\n\n")[0]
    rows = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    names = {command for row in rows for command in re.findall(r"`(make [a-z-]+|python -m [\w.]+)", row)}
    return {name.removeprefix("make ").removeprefix("python -m ") for name in names}


def programs_that_nothing_starts() -> set[str]:
    """Return the modules of tests/ that can be run, and that neither a command nor another module names."""
    files = [ROOT / "Makefile", *sorted((ROOT / "tests").rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    found = set()
    for path, source in texts.items():
        if '__name__ == "__main__"' in source and path.name != "__main__.py" and path != Path(__file__):
            stem, relative = path.stem, path.relative_to(ROOT)
            dotted = ".".join(relative.with_suffix("").parts)
            started = rf"{relative}|\"{stem}\.py\"|_python\(\"{stem}\"|{dotted}\b(?!`)"
            names = re.compile(rf"{started}|from [\w.]*{path.parent.name} import {stem}\b")
            named = any(names.search(text) for other, text in texts.items() if other not in (path, Path(__file__)))
            if not named and not stem.startswith("test_"):
                found.add(dotted)
    return found


def test_each_python_that_is_promised_is_tested() -> None:
    tests = yaml.safe_load((FORGE / "workflows" / "tests.yml").read_text())
    pythons = tests["jobs"]["tests"]["strategy"]["matrix"]["python"]
    named = [f"Programming Language :: Python :: {python}" for python in pythons]
    for path in (ROOT / "pyproject.toml", ROOT / "pipeline" / "pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        assert [one for one in project["classifiers"] if re.search(r":: 3\.\d", one)] == named
        assert project["requires-python"] == f">={pythons[0]}"
    release = (FORGE / "workflows" / "release.yml").read_text()
    assert [f"cp3{python.partition('.')[2]}-*" for python in pythons] == re.findall(r"\bcp3\d+-\*", release)
