"""The npm packages of tests/sdks/node, installed into .cache/sdks/node; and programs that run beside them."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("node")
HOME = ROOT / ".cache" / "sdks" / "node"


@cache
def installed() -> Path:
    """The folder with the packages. They are installed again where the lock file has changed."""
    npm = shutil.which("npm")
    assert npm is not None, "Node 20 or newer with npm is needed: https://nodejs.org"
    HOME.mkdir(parents=True, exist_ok=True)
    lock, done = SOURCES / "package-lock.json", HOME / "installed.json"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCES / name, HOME / name)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([*command, "--cache", ROOT / ".cache" / "npm"], cwd=HOME, check=True)
        shutil.copy(lock, done)
    return HOME


def run(program: str, given: Any, folder: Path, *arguments: str) -> Any:
    """Run a program of tests/sdks/node over a file with `given` -> what it prints, as JSON."""
    home = installed()
    shutil.copy(SOURCES / program, home / program)
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    done = subprocess.run(["node", home / program, *arguments, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_int=_number)


def _number(text: str) -> int | float:
    """JavaScript prints large doubles as integers."""
    return int(text) if len(text) < 16 else float(text)
