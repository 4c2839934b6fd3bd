"""How `pytest -n` deals the tests out to its worker processes.

Tests that wait (for a broker, for processes that start) are dealt out one by one, the longest first. All others
compute: they go by file, and last, so that every core is busy to the end of a run.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

ONE_BY_ONE: Final = ("tests/integration/", "tests/chaos/")
# Its tests share a broker that demands logins, which takes longer to start than most of them to run.
TOGETHER: Final = ("tests/integration/test_wire_security.py",)
LONGEST: Final = (
    *TOGETHER,
    "tests/integration/test_recovery.py",
    "tests/integration/test_replay.py",
    "tests/attack/",
    "tests/integration/test_archive_role.py",
    "tests/integration/gateway/test_fuzz.py",
    "tests/chaos/",
    "tests/integration/test_operations.py",
    "tests/integration/test_demo.py",
    "tests/integration/",
    "tests/property/",
    "tests/corpus/",
)


class Distribution(LoadScopeScheduling):
    """What one worker gets at once: a test of ONE_BY_ONE, or all tests of another file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.startswith(ONE_BY_ONE) and file not in TOGETHER else file


def place(nodeid: str) -> int:
    """The rank of a test in the order of a run: that of the first prefix of LONGEST that fits, else the last."""
    return next((rank for rank, prefix in enumerate(LONGEST) if nodeid.startswith(prefix)), len(LONGEST))
