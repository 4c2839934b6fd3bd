"""A wire as a record: how its events become turns, and everything else that depends on the wire.

A handler takes the builder and one event. It raises `Violation` if the event breaks its dialect's rules (the
event becomes a dead letter, the run goes on); a KeyError or TypeError of a malformed event counts as `invalid_event`.
A handler must check before it changes anything, so that a refused event has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pipeline.assembly.builder import Builder
from pipeline.assembly.expected_record import Path
from pipeline.assembly.format import Format
from pipeline.turns.lineage import History
from pipeline.turns.losses import Carrier
from topics.json_text import Fields
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.registry import Wire

Handler = Callable[[Builder, Fields], None]
Stretch = Callable[[Builder, list[Any], int], int]
StreamEnd = Literal["complete", "aborted"]


class Violation(InvalidRecord):
    """A well-formed event that violates its dialect's rules here."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.PROTOCOL_VIOLATION, detail)


class Shown(NamedTuple):
    """The visible part of an event, for people who watch a run. `text` of a tool is its name."""

    kind: Literal["text", "thinking", "tool"]
    text: str


class Delta(NamedTuple):
    """How an event of a type extends an open part. Neighbours that differ in their text alone are read as one event.

    `text`: the path of its text. `key`: the field with the part's id, None if the wire has no ids. `tag`: the field
    beside the text, and its value, that tell this delta from others of the same type.
    """

    kind: Literal["text", "thinking", "arguments"]
    text: Path
    key: str | None = None
    tag: tuple[str, str] | None = None


def nothing(builder: Builder, event: Fields) -> None:
    """Handle an event that is for display only."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The form in which an SDK's client reads the stream of an open run; events may be any JSON.

    `begins`: whether a new answer begins with this event, if a run has several; a client resumes the newest.
    `number`: of an event in its answer, by which a client reports its position; None: it has none. `sent`: whether the
    SDK's server sends this event. `empty`: without an active run, the client expects an empty stream, not a 204.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    begins: Callable[[Any], bool] = lambda event: False
    number: Callable[[Any], int | None] = lambda event: None
    sent: Callable[[Any], bool] = lambda event: True
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire, under the name that it has in `turnmill.wire.registry`.

    How events become turns. `handlers` maps the type of an event (under the key `wire.kind`) to a function; all others
    go to `unknown`. `begin` runs before the first event (the run's context is in `builder.context`: read the request
    body there), `finish` before the turns are built, with how the run ended: complete, aborted, error, disconnected,
    timeout, events_lost. `stretches` is for deltas, nine of ten events: by type, a function that applies, at once, the
    events of a record that follow an index and are like the event there, and returns the index after them; the same
    index if that event is unusual, and must go to its handler. It raises nothing, and must have the handler's effect;
    `builder.at` is the time of the first. `deltas`: by type, where an event of a stretch has its text: one of them
    applies. Events that differ in this text only must have the effect of a single event with all of their texts: so
    records that only continue a text are read as one event (see `expected_record`), and a stretch may keep nothing of
    an event but this text. `pipeline.dialects.deltas` makes stretches and live text of them.

    `history`: returns what the body of the request to the run's server repeats of the conversation. The body may be any
    JSON; this raises nothing. If the stream itself has more, a handler or `finish` sets `builder.history`.

    Functions of single events, which may be any JSON; they raise nothing. `conversation`: the conversation's id, if the
    event has it. `recognises`: whether it is an event of this wire, for streams of unknown dialect; None: it is if
    `handlers` has its type. `shows`: its visible text, for people who watch. `ended`: how the run has ended if its
    stream stops after this event; None: it has not; `before` is the result before the event.

    Properties of the wire. `carriers`: what it can't carry, for the hash that wires have in common; without any, the
    wire loses nothing. `formats`: those in which its SDK keeps conversations. `resume`: how the SDK's client
    resumes the stream of a run under way, framed as SSE; None: it has no such client.
    """

    name: str
    wire: Wire
    handlers: Mapping[str, Handler]
    unknown: Handler
    begin: Callable[[Builder], None] = lambda builder: None
    finish: Callable[[Builder, str], None] = lambda builder, end: None
    stretches: Mapping[str | None, Stretch] = field(default_factory=dict)
    deltas: Mapping[str | None, tuple[Delta, ...]] = field(default_factory=dict)
    history: Callable[[Any], History] = lambda request: History()
    conversation: Callable[[Any], str | None] = lambda event: None
    recognises: Callable[[Any], bool | None] = lambda event: None
    shows: Callable[[Any], Sequence[Shown]] = lambda event: ()
    ended: Callable[[Any, StreamEnd | None], StreamEnd | None] = lambda event, before: before
    carriers: tuple[Carrier, ...] = ()
    formats: tuple[Format, ...] = ()
    resume: Resume | None = None

    def conversation_of(self, events: Iterable[Any]) -> str | None:
        """Return the conversation's id from the first of these events that has it.

        For streams whose thread is not named otherwise.
        """
        return next(filter(None, map(self.conversation, events)), None)

    def knows(self, event: Fields) -> bool:
        """Return True if this is an event of this wire, as far as one event can tell."""
        verdict, kind = self.recognises(event), event.get(self.wire.kind)
        return isinstance(kind, str) and kind in self.handlers if verdict is None else verdict
