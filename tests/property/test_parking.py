"""A parked run gives what it would give in memory, whatever happens to it: the same turns, telemetry, dead letters."""

from dataclasses import replace
from typing import Any, Final

from hypothesis import given, settings

from tests.property import partition_schedules
from tests.property.partition_schedules import Host, Step, play, schedules

LIMITS: Final = replace(partition_schedules.LIMITS, run_bytes=2000, window_events=3)
DOES: Final = ("spill", "park", "park", "read", "die", "die without room")


def results(steps: list[Step], *, parking: bool) -> tuple[Any, ...]:
    """The offset of a dead letter may be another one: a segment has that of its last record alone."""
    host = play(Host(LIMITS, parking), [*steps, "build", "spill"], [None])
    dead = {(refused.record.value, refused.record.key, refused.reason) for refused in host.dead}
    return host.turns, host.telemetry, dead


@settings(max_examples=300)
@given(steps=schedules([None], DOES))
def test_a_parked_run_gives_what_it_would_give_in_memory(steps: list[Step]) -> None:
    assert results(steps, parking=True) == results(steps, parking=False)
