"""The usual silence of an agent's runs, learnt from those that were seen as a whole. Pure; times in ms.

The silence of a run is the longest time between two of its records. An agent's usual silence is twice the silence that
95 of its last 100 runs stayed below, and at least MIN_MS; it is unknown before MIN_RUNS runs were seen. So a run is not
silent for too long if a tool takes a minute, as usual for this agent; a hanging run is detected whatever its deadline.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

MIN_RUNS: Final = 20  # runs
MAX_RUNS: Final = 100  # runs of an agent that are remembered
QUANTILE: Final = 0.95
FACTOR: Final = 2
MIN_MS: Final = 10_000
MAX_AGENTS: Final = 2_000  # that are remembered; beyond that, the one whose last run ended longest ago is removed

Agent = tuple[str | None, str]  # tenant, agent_id


@dataclass(slots=True)
class _Seen:
    longest: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_RUNS))
    usual: int | None = None


class UsualSilence:
    """The usual silence of each agent. Memory is bounded."""

    def __init__(self, agents: int = MAX_AGENTS) -> None:
        self._most = agents
        self._seen: OrderedDict[Agent, _Seen] = OrderedDict()

    def add(self, agent: Agent, longest: int) -> None:
        """Add a finished run of this agent; `longest`: its longest silence."""
        seen = self._seen.setdefault(agent, _Seen())
        self._seen.move_to_end(agent)
        seen.longest.append(longest)
        if len(seen.longest) >= MIN_RUNS:
            ordered = sorted(seen.longest)
            seen.usual = max(MIN_MS, FACTOR * ordered[int(QUANTILE * (len(ordered) - 1))])
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)

    def of(self, agent: Agent) -> int | None:
        """Return the silence beyond which a run of this agent is marked; None if too few runs were seen."""
        seen = self._seen.get(agent)
        return None if seen is None else seen.usual
