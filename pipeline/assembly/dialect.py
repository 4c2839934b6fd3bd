"""What a wire protocol is to the assembler: a table of handlers, and what opens and closes a run.

A handler takes the builder and one event. It raises `Violation` where the event breaks its dialect's rules (the
event becomes a dead letter, the run goes on); a KeyError or TypeError of a malformed event counts as `invalid_event`.
A handler must check before it changes anything, so that a refused event leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.assembly.builder import Builder
from threadmill.errors import InvalidRecord, Reason
from threadmill.wires import Wire

Handler = Callable[[Builder, dict[str, Any]], None]
Stretch = Callable[[Builder, list[Any], int], int]


class Violation(InvalidRecord):
    """A well-formed event that is against its dialect's rules at this place."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.PROTOCOL_VIOLATION, detail)


def nothing(builder: Builder, event: dict[str, Any]) -> None:
    """Handler of an event that is for display only."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire protocol.

    `handlers` maps the type of an event (under the key `wire.kind`) to a function, all others go to `unknown`. `begin`
    runs before the first event (the run's context is in `builder.context`: read the request body there), `finish`
    before the turns are built, with how the run ended: complete, aborted, error, disconnected, timeout, events_lost.

    `stretches` is for deltas, nine of ten events: by type, a function that takes as many of a record's events as are
    like the one at an index, at once, and returns the index behind them; that index itself where the one there is
    out of the ordinary, and its handler must look at it. It raises nothing, and must do what its handler would do.
    """

    name: str
    wire: Wire
    handlers: Mapping[str, Handler]
    unknown: Handler
    begin: Callable[[Builder], None] = lambda builder: None
    finish: Callable[[Builder, str], None] = lambda builder, end: None
    stretches: Mapping[str, Stretch] = field(default_factory=dict)
    conversation: Callable[[Any], str | None] = lambda event: None  # the conversation's id, if this event tells it
    losses: Mapping[str, str] = field(default_factory=dict)  # what this wire can't carry, and what becomes of it

    def conversation_of(self, events: Iterable[Any]) -> str | None:
        """The conversation's id by the first of these events that tells it: for streams whose thread nobody names."""
        return next(filter(None, map(self.conversation, events)), None)
