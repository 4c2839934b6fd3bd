"""The npm packages of tests/sdks/node, installed into .cache/sdks/node; and programs that run beside them."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import npm

SOURCES = Path(__file__).with_name("node")


@cache
def installed() -> Path:
    """The folder with the packages, and the programs beside them."""
    return npm.installed(SOURCES, "sdks/node")


def run(program: str, given: Any, folder: Path, *arguments: str) -> Any:
    """Run a program of tests/sdks/node over a file with `given` -> what it prints, as JSON."""
    home = installed()
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    done = subprocess.run(["node", home / program, *arguments, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_int=_number)


def as_javascript_reads(value: Any) -> Any:
    """The same JSON with the numbers that JavaScript makes of it: integers beyond 2^53 are rounded to doubles."""
    return json.loads(json.dumps(value), parse_int=_number)


def _number(text: str) -> int | float:
    """JavaScript prints large doubles as integers."""
    return int(text) if len(text) < 16 else float(text)
