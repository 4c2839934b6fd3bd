"""The real ADK takes our sessions, event by event, and goes on with them, whatever wire their threads came over."""

from functools import cache

import pytest

from tests.sdks.python_sdks import problems
from tests.sdks.threads import STREAMS, exports, of_wire

EACH = 3  # every third thread: a session takes its runner a tenth of a second


@cache
def found() -> dict[str, str]:
    given = dict(list(exports("google-adk").items())[::EACH])
    return problems("google-adk", "google_adk_loader.py", given)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_session_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
