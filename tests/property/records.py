"""Events of one run -> its records as a broker may give them: in any batches, twice, and out of order."""

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tests.support.assembled import START, THREAD_ID

Envelope = dict[str, Any]


def envelope(dialect: str, events: list[Any], seq: int, run: dict[str, Any] | None = None) -> Envelope:
    """One record; the run's n-th event happens n * 10 ms after START."""
    dt = [10 * n for n in range(len(events))]
    found = {"v": 1, "thread_id": THREAD_ID, "run_id": "run-1", "agent_id": "agent-1", "dialect": dialect, "seq": seq}
    found |= {"ts": START + 10 * seq, "events": events, "dt": dt}
    return found | {"run": run} if run and seq == 0 else found


@st.composite
def deliveries(draw: st.DrawFn, dialect: str, events: list[Any], run: dict[str, Any] | None = None) -> list[Envelope]:
    """The run's events in records of any size, each at least once, in any order."""
    cuts = draw(st.sets(st.integers(1, max(1, len(events) - 1)), max_size=12)) if len(events) > 1 else set()
    edges = [0, *sorted(cuts), len(events)]
    once = [envelope(dialect, events[a:b], a, run) for a, b in pairwise(edges)]
    again = draw(st.lists(st.sampled_from(once), max_size=4))
    return draw(st.permutations([*once, *again]))
