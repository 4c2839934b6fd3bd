"""An operation of the pipeline on a topic, in AsyncAPI's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from topics.catalog import Topic

Action = Literal["send", "receive"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: `name` is its id in the AsyncAPI document, `summary` its description there."""

    name: str
    action: Action
    topic: Topic
    summary: str
