"""The state of the core: compiled or interpreted, and compiled from the present sources or from others.

`compiled_core.py` writes the stamp: how the file names of extension modules end, and the hash of each source.
"""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final, Literal

STAMP: Final = "topics/compiled.json"
ROOT: Final = Path(__file__).resolve().parent.parent
WAY_OUT: Final = "compile it again (`make compile`), or remove it (`make interpreted`); installed, install it again"


def digest(source: Path) -> str:
    """Return the hash of a source, as the stamp has it."""
    return sha256(source.read_bytes()).hexdigest()


def check(root: Path = ROOT) -> Literal["compiled", "interpreted"]:
    """Return how the core runs that lies in `root`.

    Raises ImportError where a source is not the one that was compiled: what runs would not be what the source says. All
    sources are read, in some milliseconds.
    """
    try:
        stamp = json.loads((root / STAMP).read_bytes())
    except FileNotFoundError:
        return "interpreted"
    suffix = stamp["suffix"]
    if suffix not in EXTENSION_SUFFIXES:  # for another Python: this one does not see it
        return "interpreted"
    for path, expected in stamp["sources"].items():
        source = root / path
        if not source.with_suffix(suffix).exists():
            raise ImportError(f"{path} is not compiled, and others are: {WAY_OUT}")
        if digest(source) != expected:
            raise ImportError(f"{path} has changed since it was compiled: {WAY_OUT}")
    return "compiled"
