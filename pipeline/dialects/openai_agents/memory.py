"""What the dialect remembers of a run (`builder.scratch`)."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.dialects.openai_agents.answer import Answer


@dataclass(slots=True, eq=False)
class Memory:
    """`answer`: the call that is going on. `is_over`: the newest call had its terminal event, and nothing followed.
    `is_raw`: the model's own events are in the stream. `agent`: who speaks; `moved`: to whom a hand-off led.
    """

    answer: Answer | None = None
    last_id: str | None = None
    is_over: bool = False
    is_raw: bool = False
    agent: str = ""
    moved: str | None = None
