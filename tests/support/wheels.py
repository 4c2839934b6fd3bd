"""The package as its users get it: a wheel in an environment of its own, with what uv.lock says of its extras."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT

CACHE = os.environ.get("UV_CACHE_DIR", str(ROOT / ".cache" / "uv"))


def build(folder: Path) -> Path:
    """-> a wheel of this checkout, interpreted."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(wheel: Path, folder: Path, *extras: str) -> Path:
    """Make an environment with the wheel and these extras, and nothing else -> the folder of its programs."""
    uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    named = [word for extra in extras for word in ("--extra", extra)]
    locked = ["--frozen", "--no-dev", "--no-install-project", "--python", sys.executable, *named]
    run(uv, "sync", "--quiet", *locked, UV_PROJECT_ENVIRONMENT=str(folder))
    python = str(folder / "bin" / "python")
    run(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, str(wheel))
    run(uv, "pip", "check", "--quiet", "--python", python)
    return folder / "bin"


def run(*command: str, **variables: str) -> None:
    environment = {**os.environ, "UV_CACHE_DIR": CACHE, **variables}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
