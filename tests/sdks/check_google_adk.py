"""The real ADK takes our sessions, event by event, and goes on with them, whatever wire their threads came over.

Part of `make test-sdks`: it installs google-adk from PyPI into .cache/sdks, with uv.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.sdks.python_sdks import environment, problems
from tests.sdks.threads import STREAMS, exports, of_wire

LOADER = Path(__file__).with_name("google_adk_loader.py")
RELEASE = "2.13.0"
EACH = 3  # every third thread: a session takes its runner a tenth of a second


@cache
def found() -> dict[str, str]:
    given = dict(list(exports("google-adk").items())[::EACH])
    return problems(environment("google-adk", RELEASE), LOADER, given)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_session_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
