"""The real ADK takes our sessions, event by event, and goes on with them, whatever wire their threads came over.

Part of `make test-sdks`: it installs google-adk from PyPI into .cache/sdks, with uv.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.dialects.google_adk.export import events
from tests.sdks.python_sdks import environment, problems
from tests.sdks.threads import STREAMS, all_threads

LOADER = Path(__file__).with_name("google_adk_loader.py")
RELEASE = "2.13.0"


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_session_is_taken_and_goes_on(dialect: str, tmp_path: Path) -> None:
    histories = {name: events(thread) for name, thread in all_threads(dialect)}
    assert len(histories) > 60
    assert problems(environment("google-adk", RELEASE), LOADER, histories, tmp_path) == {}
