"""What is missing on a machine, each told in a sentence. Programs are stand-ins: small shell scripts on PATH."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.devbroker.jars import jars, java, java_version, kafka_version
from pipeline.errors import CallerError
from pipeline.settings import Settings


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a shell and nothing else. -> the folder for its programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for name in ("JAVA_HOME", "KAFKA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return programs


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{script}\n")
    (folder / name).chmod(0o755)


def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


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


@pytest.mark.parametrize(
    ("name", "version"),
    [("kafka_2.13-4.1.2.jar", 4), ("kafka_2.12-3.9.0.jar", 3), ("kafka_2.13-4.1.2-sources.jar", None)],
)
def test_kafka_version(name: str, version: int | None):
    assert kafka_version(name) == version


def test_no_java():
    with pytest.raises(CallerError, match="no java in PATH: install Java 17"):
        java()


def test_no_java_in_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(CallerError, match=r"jdk/bin \(JAVA_HOME\)"):
        java()


def test_old_java(machine: Path):
    program(machine, "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(CallerError, match="is Java 11, too old for Kafka: install Java 17"):
        java()


def test_broken_java(machine: Path):
    program(machine, "java", "exit 127")
    with pytest.raises(CallerError, match="does not run"):
        java()


def test_java_home_goes_first(monkeypatch: pytest.MonkeyPatch, machine: Path, tmp_path: Path):
    program(machine, "java", "echo 'version \"17\"'")
    program(tmp_path / "jdk" / "bin", "java", "echo 'version \"21\"'")
    assert java() == machine / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java() == tmp_path / "jdk" / "bin" / "java"


def test_kafka_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    monkeypatch.setenv("KAFKA_HOME", str(libs.parent))
    with pytest.raises(CallerError, match=r"has no libs/kafka_2\.\*\.jar"):
        jars(settings(tmp_path), print)
    (libs / "kafka_2.13-3.9.1.jar").touch()
    with pytest.raises(CallerError, match="holds Kafka 3: point it at"):
        jars(settings(tmp_path), print)
    (libs / "kafka_2.13-4.0.0.jar").touch()
    assert jars(settings(tmp_path), print) == libs


def test_no_maven(tmp_path: Path):
    with pytest.raises(CallerError, match=r"Maven \(mvn\).*install it.*KAFKA_HOME"):
        jars(settings(tmp_path), print)


def test_a_failed_download_says_why_and_leaves_nothing_half_done(machine: Path, tmp_path: Path):
    into = '"$(echo "$*" | sed "s/.*-DoutputDirectory=\\([^ ]*\\).*/\\1/")"'
    program(machine, "mvn", f"mkdir -p {into}; echo '[INFO] hello'; echo '[ERROR] Unknown host repo'; exit 1")
    with pytest.raises(CallerError, match=r"(?s)maven\.log.*\[ERROR\] Unknown host repo") as error:
        jars(settings(tmp_path), print)
    assert "hello" not in str(error.value)
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"kafka.lock", "maven.log"}


def test_two_at_once_download_once(machine: Path, tmp_path: Path):
    into = '"$(echo "$*" | sed "s/.*-DoutputDirectory=\\([^ ]*\\).*/\\1/")"'
    program(
        machine, "mvn", f"echo . >>'{tmp_path}/calls'; sleep 0.3; mkdir -p {into}; touch {into}/kafka_2.13-4.1.2.jar"
    )
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(jars(settings(tmp_path), print))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert [jar.name for jar in found[0].iterdir()] == ["kafka_2.13-4.1.2.jar"]
    assert (tmp_path / "calls").read_text() == ".\n"
