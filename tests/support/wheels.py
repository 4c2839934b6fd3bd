"""The packages as users get them: wheels in an environment of its own, with what uv.lock says of their extras."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT

CACHE = os.environ.get("UV_CACHE_DIR", str(ROOT / ".cache" / "uv"))


CLIENT, SERVER = ROOT, ROOT / "pipeline"  # the folders of the two projects


def build(folder: Path) -> Path:
    """Build the wheels of this checkout, interpreted, and return the folder."""
    for project in (CLIENT, SERVER):
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), where=project)
    return folder


def installed(wheels: Path, folder: Path, *extras: str) -> Path:
    """Make an environment with the client, these extras of it and no more, and return the folder of its programs."""
    uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    named = [word for extra in extras for word in ("--extra", extra)]
    locked = ["--frozen", "--no-dev", "--no-install-workspace", "--python", sys.executable, *named]
    run(uv, "sync", "--quiet", *locked, UV_PROJECT_ENVIRONMENT=str(folder))
    python = str(folder / "bin" / "python")
    files = [str(path) for path in wheels.glob("turnmill-*.whl" if not extras else "*.whl")]
    run(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, *files)
    run(uv, "pip", "check", "--quiet", "--python", python)
    return folder / "bin"


def run(*command: str, where: Path = ROOT, **variables: str) -> None:
    environment = {**os.environ, "UV_CACHE_DIR": CACHE, **variables}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
