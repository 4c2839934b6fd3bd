"""The dialect's memory of a run (`builder.scratch`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from pipeline.assembly.parts import Message
from topics import json_text
from topics.json_text import Fields


@dataclass(slots=True, eq=False)
class Fragments:
    """An agent's fragments since its last whole event. `event_id`: that of the newest fragment."""

    message: Message
    event_id: str


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of a run.

    `open`: fragments by voice (an agent on its branch). `seen`: digests of whole events' contents. `counted`: ids of
    the events whose tokens are counted. `spent`: by branch, the author, the invocation and the counts of the newest
    tokens. `code`: by voice, the id of the newest code that was run. `error`: the message of the newest error event.
    """

    open: dict[str, Fragments] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    spent: dict[str, tuple[str, Any, Fields]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    def is_new(self, event_id: str, *content: Any) -> bool:
        """Return True if an event with this id has this content for the first time, or has no id."""
        if not event_id:
            return True
        digest = hashlib.blake2b(json_text.dumps([event_id, *content]).encode(), digest_size=16).digest()
        if digest in self.seen:
            return False
        self.seen.add(digest)
        return True
