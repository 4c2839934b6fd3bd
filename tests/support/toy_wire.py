"""The wire that docs/adding/wire.md writes: its code, its stream, and a copy of the program that has it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from pipeline.settings import Settings
from tests.support.workers import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding" / "wire.md").read_text(encoding="utf-8")
CODE = re.compile(r"<!-- tested: (\S+) -->\n```(?:python|json)\n(.*?)```", re.DOTALL)
REGISTRY = "turnmill/wire/registry.py"
FILES = dict(CODE.findall(PAGE))  # path -> text
LINE = FILES.pop(REGISTRY)
FOLDER = "pipeline/dialects/toy"

found = re.search(r"`t` is the type.*?```json\n(.*?)```", PAGE, re.DOTALL)
assert found is not None
STREAM = found[1]
LEFT = ("__pycache__", "images", "*.so", "compiled.json")


def write(root: Path) -> None:
    """Add the wire's files to a tree."""
    for path, text in FILES.items():
        assert path.startswith((f"{FOLDER}/", "tests/bench/samples/")), "one folder"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def copied(root: Path) -> Path:
    """A copy of the program, interpreted, in this folder."""
    for name in ("turnmill", "topics", "pipeline", "docs", "results", "tests/bench"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns(*LEFT))
    for name in ("CONTRIBUTING.md", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    return root


def program(root: Path) -> Path:
    """A copy of the program with one line and one folder more."""
    registry = copied(root) / REGISTRY
    head, brace, rest = registry.read_text(encoding="utf-8").rpartition("}")
    registry.write_text(head + LINE + brace + rest, encoding="utf-8")
    write(root)
    return root


def run(root: Path, *command: str) -> str:
    """What `python COMMAND` of the copy prints."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},  # before the packages of the tests
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def gateway(settings: Settings, root: Path) -> Iterator[str]:
    """A gateway of the copy, on a free port -> its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "gateway"],
        cwd=root,
        env=environment(settings, PYTHONPATH=str(root)),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        for line in process.stderr:
            lines.append(line)
            if told := re.search(r"http://\S+", line):
                Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop it
                yield told[0]
                break
        else:
            raise AssertionError(lines)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, lines
