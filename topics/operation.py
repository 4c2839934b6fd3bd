"""An operation of the pipeline on a topic, in AsyncAPI's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from topics.catalog import Topic

Action = Literal["send", "receive"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` is the operation's id in the AsyncAPI document, `summary` its sentence there."""

    name: str
    action: Action
    topic: Topic
    summary: str
