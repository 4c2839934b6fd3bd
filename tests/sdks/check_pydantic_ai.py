"""The real Pydantic AI loads our messages and goes on with them, in each supported release and from each wire.

Part of `make test-sdks`: it installs the releases from PyPI into .cache/sdks, with uv.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from pipeline.dialects.pydantic_ai.export import messages
from tests.sdks.threads import STREAMS, all_threads

ROOT = Path(__file__).parent.parent.parent
LOADER = Path(__file__).with_name("pydantic_ai_loader.py")
# 1.20.0 imports a module that later releases of OpenTelemetry no longer have.
RELEASES = {"2.68.0": [], "1.107.10": [], "1.20.0": ["opentelemetry-api<1.39"]}


@cache
def environment(release: str) -> Path:
    """The Python that has this release of pydantic-ai."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is needed to install the releases: https://docs.astral.sh/uv/"
    home = ROOT / ".cache" / "sdks" / f"pydantic-ai-{release}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", "3.11", home], check=True)
    needs = [f"pydantic-ai-slim=={release}", *RELEASES[release]]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *needs], check=True)
    return python


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("release", RELEASES)
def test_the_release_loads_every_run_and_goes_on(release: str, dialect: str, tmp_path: Path) -> None:
    histories = {name: messages(thread, for_version=release) for name, thread in all_threads(dialect)}
    assert len(histories) > 60
    file = tmp_path / "histories.json"
    file.write_text(json.dumps(histories))
    done = subprocess.run([environment(release), LOADER, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {name: problem for name, problem in json.loads(done.stdout).items() if problem} == {}
