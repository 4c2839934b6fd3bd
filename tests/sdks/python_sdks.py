"""Releases of Python SDKs from PyPI, each in an environment of its own under .cache/sdks, installed with uv."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HOME = Path(__file__).parent.parent.parent / ".cache" / "sdks"


@cache
def environment(package: str, release: str, *needs: str) -> Path:
    """The Python that has this release of a package, and what else it needs."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is needed to install the releases: https://docs.astral.sh/uv/"
    home = HOME / f"{package.removesuffix('-slim')}-{release}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", "3.11", home], check=True)
    wanted = [f"{package}=={release}", *needs]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True)
    return python


def problems(python: Path, loader: Path, histories: dict[str, Any], *arguments: str) -> dict[str, str]:
    """What a loader has against histories, by their names; it prints that as its last line."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "histories.json"
        file.write_text(json.dumps(histories))
        done = subprocess.run([python, loader, file, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == histories.keys()
    return {name: problem for name, problem in found.items() if problem}
