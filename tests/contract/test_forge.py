"""What a forge reads: its files are well formed, and name the commands and Pythons that there are."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
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


def test_the_nights_commands_are_those_of_test_all() -> None:
    nightly = yaml.safe_load((FORGE / "workflows" / "nightly.yml").read_text())
    commands = re.search(r"^COMMANDS='\n(.*?)'$", (ROOT / ".ci" / "test-all").read_text(), re.MULTILINE | re.DOTALL)
    assert commands is not None
    long = dict(line.split(" ", 1) for line in commands[1].splitlines())
    assert set(nightly["jobs"]["long"]["strategy"]["matrix"]["command"]) <= set(long)
    assert {word for line in long.values() for word in line.partition(" ARGS=")[0].split()} <= TARGETS


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
