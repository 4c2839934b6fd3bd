"""Tenants whose threads and runs have the same ids: each gets what it would get alone, whatever the others send.

What comes out is compared with what comes out of each tenant's own records at the same offsets and times.
"""

from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.property.partition_schedules import LIMITS, Host, Sent, Step, play, schedules

TENANTS: Final = [None, "acme", "evil"]


def results(steps: list[Step], *tenants: str | None, empty: bool = False) -> list[set[object]]:
    """Turns, telemetry and dead letters; and the state topic as it stands in the end."""
    host = play(Host(LIMITS), steps, tenants, empty=empty)
    dead = {(refused.record.offset, refused.detail) for refused in host.dead}
    return [{*host.turns}, {*host.telemetry}, {*dead}, {*host.state.items()}]


ENDS: Final[tuple[list[Step], ...]] = (  # read again, behind another's open run or from the state topic
    [
        *(Sent(None, "r", 0, 0, "aborted", extras=False), 1500, 1500, Sent(None, "r", 0, 1, None, extras=False), 0, 40),
        *(Sent("acme", "r", 0, 0, "complete", extras=False), "die"),
    ],
    [
        *("spill", Sent(None, "r", 0, 1, None, extras=False), Sent("acme", "r", 1, 0, "complete", extras=False)),
        *(Sent("acme", "r", 1, 1, None, extras=False), 400, "die"),
    ],
    [
        *(Sent(None, "r", 0, 0, "aborted", extras=False), Sent(None, "r", 0, 1, None, extras=False), 120),
        *(Sent("acme", "r", 0, 1, None, extras=False), "die", "spill", "die"),
    ],
    [
        *(Sent("acme", "r", 0, 1, None, extras=False), Sent(None, "r", 0, 0, "aborted", extras=False)),
        *(Sent(None, "r", 1, 1, None, extras=False), 400, "die"),
    ],
)


@settings(max_examples=300, deadline=None)
@example(steps=ENDS[0], empty=False)
@example(steps=ENDS[1], empty=False)
@example(steps=ENDS[2], empty=False)
@example(steps=ENDS[3], empty=False)
@given(steps=schedules(TENANTS, ("spill", "die")), empty=st.booleans())
def test_each_gets_what_it_would_get_alone(steps: list[Step], empty: bool) -> None:  # noqa: FBT001
    alone = [results(steps, tenant) for tenant in TENANTS]
    assert results(steps, *TENANTS, empty=empty) == [set[object]().union(*parts) for parts in zip(*alone, strict=True)]
