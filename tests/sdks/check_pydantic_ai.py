"""The real Pydantic AI loads our messages and goes on with them, in each supported release and from each wire.

Part of `make test-sdks`: it installs the releases from PyPI into .cache/sdks, with uv.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pipeline.dialects.pydantic_ai.export import messages
from tests.sdks.python_sdks import environment, problems
from tests.sdks.threads import STREAMS, all_threads, of_wire

LOADER = Path(__file__).with_name("pydantic_ai_loader.py")
# 1.20.0 imports a module that later releases of OpenTelemetry no longer have.
RELEASES = {"2.68.0": [], "1.107.10": [], "1.20.0": ["opentelemetry-api<1.39"]}


@cache
def found(release: str) -> dict[str, str]:
    histories = {
        f"{dialect}: {name}": messages(thread, for_version=release)
        for dialect in STREAMS
        for name, thread in all_threads(dialect)
    }
    return problems(environment("pydantic-ai-slim", release, *RELEASES[release]), LOADER, histories)


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("release", RELEASES)
def test_the_release_loads_every_run_and_goes_on(release: str, dialect: str) -> None:
    assert of_wire(dialect, found(release)) == {}
