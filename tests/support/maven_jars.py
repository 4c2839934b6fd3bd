"""The jars of a pom.xml of ours, from the cache."""

import hashlib
from pathlib import Path

from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.maven import copy_jars


def maven_jars(cache: Path, pom: Path, name: str) -> Path:
    """Return the folder of a pom's jars in the cache, named by `name` and the pom's hash. Raises CallerError."""
    libs = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not libs.is_dir():
        with locked(cache / f"{name}.lock"):
            if not libs.is_dir():  # another process may have downloaded them meanwhile
                copy_jars(cache, pom, libs)
    return libs
