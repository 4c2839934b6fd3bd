"""Check whether the core is compiled or interpreted, and whether it was compiled from the present sources.

`compiled_core.py` writes the stamp: the suffix of extension modules' file names, and the hash of each source.
"""

import json
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final, Literal

STAMP: Final = "topics/compiled.json"
ROOT: Final = Path(__file__).resolve().parent.parent
WAY_OUT: Final = "compile it again (`make compile`), or remove it (`make interpreted`); installed, install it again"


def digest(source: Path) -> str:
    """Return the hash of a source, as in the stamp."""
    return sha256(source.read_bytes()).hexdigest()


def check(root: Path = ROOT) -> Literal["compiled", "interpreted"]:
    """Return whether the core in `root` is compiled or interpreted.

    Raises ImportError if a source differs from the compiled one, since the running code would differ from the source.
    All sources are read, in some milliseconds.
    """
    try:
        stamp = json.loads((root / STAMP).read_bytes())
    except FileNotFoundError:
        return "interpreted"
    suffix = stamp["suffix"]
    if suffix not in EXTENSION_SUFFIXES:  # compiled for another Python, so this one ignores it
        return "interpreted"
    for path, expected in stamp["sources"].items():
        source = root / path
        if not source.with_suffix(suffix).exists():
            raise ImportError(f"{path} is not compiled, and others are: {WAY_OUT}")
        if digest(source) != expected:
            raise ImportError(f"{path} has changed since it was compiled: {WAY_OUT}")
    return "compiled"
