"""How `pytest -n` deals the tests out to its worker processes: the longest first, as `tests/durations.json` has them.

Tests that wait (for a broker, for processes that start) are dealt out one by one. All others compute, and go by file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

from tests.support.durations import short_name

ONE_BY_ONE: Final = ("tests/integration/", "tests/chaos/")
# Its tests share a broker that demands logins, which takes longer to start than most of them to run.
TOGETHER: Final = ("test_wire_security.py",)


class Distribution(LoadScopeScheduling):
    """What one worker gets at once is a scope."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """Return what is dealt out at once: the id of a test of ONE_BY_ONE, or the file with all its tests."""
    file = nodeid.partition("::")[0]
    return nodeid if file.startswith(ONE_BY_ONE) and Path(file).name not in TOGETHER else file


def place(nodeid: str, durations: Mapping[str, int]) -> int:
    """Return the rank of a test in the order of a run. One that waits and has no duration comes before such a file."""
    unit = scope(nodeid)
    return -durations.get(short_name(unit), int("::" in unit))
