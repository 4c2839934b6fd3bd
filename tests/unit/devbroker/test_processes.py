"""What is read of a process in /proc, from folders like those there."""

import threading
from pathlib import Path

from pipeline.devbroker.processes import command_line


def process(folder: Path, state: str, arguments: str) -> Path:
    (folder / "stat").write_text(f"17 (a (strange) name) {state} 1 17 17 0")
    (folder / "cmdline").write_text(arguments)
    return folder


def test_its_arguments(tmp_path: Path) -> None:
    assert command_line(process(tmp_path, "S", "java\0-version\0")) == "java\0-version\0"


def test_one_that_is_gone_or_dead_has_none(tmp_path: Path) -> None:
    assert command_line(tmp_path / "gone") == ""
    assert command_line(process(tmp_path, "Z", "")) == ""


def test_one_that_is_just_becoming_another_program_is_waited_for(tmp_path: Path) -> None:
    folder = process(tmp_path, "R", "")
    soon = threading.Timer(0.05, lambda: process(folder, "R", "java\0kafka.Kafka\0"))
    soon.start()
    assert command_line(folder) == "java\0kafka.Kafka\0"
    soon.join()
