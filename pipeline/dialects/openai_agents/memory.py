"""The state of a run of OpenAI's Agents SDK, which its handlers share from event to event."""

from dataclasses import dataclass, field

from pipeline.dialects.openai_responses.output import Output


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of a run.

    `answer`: the current call. `is_over`: the newest call had its terminal event, and nothing followed. `ended`: the
    ids of those that had it. `is_raw`: the model's own events are in the stream. `agent`: the current agent; `moved`:
    the target of a hand-off.
    """

    answer: Output | None = None
    last_id: str | None = None
    is_over: bool = False
    is_raw: bool = False
    agent: str = ""
    moved: str | None = None
    ended: set[str] = field(default_factory=set)
