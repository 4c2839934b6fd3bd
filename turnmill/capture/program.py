"""Recognize Python programs, and make the environment in which they capture their model calls."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from turnmill.capture.process_end import PROGRAM

SITE: Final = str(Path(__file__).parent / "site")
HEAD_BYTES: Final = 2_000  # of a script, for the line that says what runs it


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the folder of our `sitecustomize` first in PYTHONPATH, and with this process."""
    folders = [folder for folder in variables.get("PYTHONPATH", "").split(os.pathsep) if folder not in ("", SITE)]
    return {**variables, "PYTHONPATH": os.pathsep.join([SITE, *folders]), PROGRAM: str(os.getpid())}


def is_python(program: Path) -> bool:
    """Return True for a Python interpreter, and for a script that it runs."""
    if program.resolve().name.startswith(("python", "pypy")):
        return True
    try:
        with program.open("rb") as file:
            first, second, *_ = [*file.read(HEAD_BYTES).split(b"\n"), b"", b""]
    except OSError:  # executable, but not readable
        return False
    # Installers use the second line if the path of Python is too long for the first.
    return first.startswith(b"#!") and (b"python" in first or second.startswith(b"'''exec'"))
