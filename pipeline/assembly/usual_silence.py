"""The usual silence of an agent's runs, learnt from those that were seen as a whole. Pure; times in ms.

The silence of a run is the longest time between two of its records. An agent's usual silence is twice the silence that
95 of its last 100 runs stayed below, and at least MIN_MS; it is unknown before MIN_RUNS runs were seen. So a run is not
silent for too long if a tool takes a minute, as usual for this agent; a hanging run is detected whatever its deadline.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pipeline.policies.pools import SILENCES
from turnmill.remembered import Remembered

MIN_RUNS: Final = 20  # runs
MAX_RUNS: Final = 100  # runs of an agent that are remembered
QUANTILE: Final = 0.95
FACTOR: Final = 2
MIN_MS: Final = 10_000
SEEN_BYTES: Final = 4_500  # of memory, of what is known of an agent

Agent = tuple[str | None, str]  # tenant, agent_id


@dataclass(slots=True)
class _Seen:
    longest: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_RUNS))
    usual: int | None = None


class UsualSilence:
    """The usual silence of each agent."""

    def __init__(self) -> None:
        self._seen: Remembered[str, _Seen] = Remembered(SILENCES, lambda _: SEEN_BYTES)

    def add(self, agent: Agent, longest: int) -> None:
        """Add a finished run of this agent; `longest`: its longest silence."""
        seen = self._seen.pop(*agent) or _Seen()
        self._seen.put(*agent, seen)
        seen.longest.append(longest)
        if len(seen.longest) >= MIN_RUNS:
            ordered = sorted(seen.longest)
            seen.usual = max(MIN_MS, FACTOR * ordered[int(QUANTILE * (len(ordered) - 1))])

    def of(self, agent: Agent) -> int | None:
        """Return the silence beyond which a run of this agent is marked; None if too few runs were seen."""
        seen = self._seen.get(*agent)
        return None if seen is None else seen.usual
