"""Environments with a release of pydantic-ai, its adapters, and this package, installed into .cache/sdks."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
# 1.20.0 imports a module that later releases of OpenTelemetry no longer have.
RELEASES: Final = {"2.68.0": [], "1.107.10": [], "1.20.0": ["opentelemetry-api<1.39"]}


@cache
def publishing_python(release: str) -> Path:
    """The Python that has this release beside this package."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is needed to install the SDKs: https://docs.astral.sh/uv/"
    home = ROOT / ".cache" / "sdks" / f"publishing-{release}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", "3.11", home], check=True)
    needs = [f"pydantic-ai-slim[ui]=={release}", *RELEASES[release]]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "--editable", ROOT, *needs], check=True)
    return python
