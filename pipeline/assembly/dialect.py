"""A wire as a record: how its events become turns, its SDK's formats, and everything else that depends on the wire.

A handler takes the builder and one event. It raises `Violation` if the event breaks its dialect's rules (the
event becomes a dead letter, the run goes on); a KeyError or TypeError of a malformed event counts as `invalid_event`.
A handler must check before it changes anything, so that a refused event has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from pipeline.assembly.builder import Builder
from pipeline.assembly.expected_record import Path
from pipeline.turns.branches import one_branch
from pipeline.turns.lineage import History
from pipeline.turns.losses import Carrier
from pipeline.turns.newest_results import for_models
from pipeline.turns.partial_turns import with_partials
from topics import json_text
from topics.json_text import Fields
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.registry import Wire

Handler = Callable[[Builder, Fields], None]
Stretch = Callable[[Builder, list[Any], int], int]
StreamEnd = Literal["complete", "aborted"]
Messages = Sequence[Fields]


class Violation(InvalidRecord):
    """A well-formed event that violates its dialect's rules here."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.PROTOCOL_VIOLATION, detail)


class Shown(NamedTuple):
    """The visible part of an event, for people who watch a run. `text` of a tool is its name."""

    kind: Literal["text", "thinking", "tool"]
    text: str


class Delta(NamedTuple):
    """The fields by which an event extends an open part. Stretches read neighbours that differ in `text` alone as one.

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


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of an SDK's messages.

    `split`: splits a history into exchanges, each a user's prompt with what the agent did then. `fill`: puts an
    exchange into a builder, and returns how it ended, as in `finish`; None if the agent has not answered yet. `time`:
    when an exchange began, epoch ms, if its messages tell. All may raise KeyError, TypeError, AttributeError or
    InvalidRecord if these are not messages of this SDK.
    """

    split: Callable[[Messages], list[Messages]]
    fill: Callable[[Builder, Messages], str | None]
    time: Callable[[Messages], int | None] = lambda messages: None


class WrongOption(ValueError):
    """An option that a format does not take, or not with this value. `option`: its name; `why`: the reason."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{option}: {why}")
        self.option = option
        self.why = why


@dataclass(frozen=True, slots=True)
class Format:
    """A format. `write`: makes the SDK's messages of a ThreadProtocol document; with `is_document`, a document again.

    `options`: keyword arguments of `write`, each with a function that raises ValueError for an invalid value.
    `reader` reads histories in this format; None: they can't be imported.
    """

    name: str
    write: Callable[..., Any]
    reader: Reader | None = None
    options: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    is_document: bool = False

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for `write` from those of a caller, where None or False means none. Raises WrongOption."""
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        for name, value in options.items():
            if name not in self.options:
                raise WrongOption(name, f"the format {self.name} has no such option")
            try:
                self.options[name](value)
            except ValueError as error:
                raise WrongOption(name, str(error)) from None
        return options

    def made(self, document: Fields, **options: Any) -> Any:
        """Return what `write` makes of a document.

        Messages have no responses beside the answer, and one result for each call.
        """
        if self.is_document:
            return self.write(document, **options)
        return self.write(for_models(document), **options)

    def printed(self, document: Fields, *, branch: str | None = None, partial: bool = False, **options: Any) -> Fields:
        """Return a thread for callers: the document, or {"thread_id", "messages"}.

        `branch`: only the branch with this run. Without it, a document has all branches, messages are of the newest.
        Raises UnknownBranch.

        `partial`: include what interrupted turns had shown, but do not keep. SDKs have no mark for it, so the result
        also has the indexes of the messages with such content: {"thread_id", "messages", "partial": [2]}.
        """
        if branch is not None or not self.is_document:
            document = one_branch(document, branch)
        written = self.made(with_partials(document) if partial else document, **options)
        if self.is_document:
            return cast("Fields", written)
        printed = {"thread_id": document["thread_id"], "messages": written}
        return {**printed, "partial": _added(written, self.made(document, **options))} if partial else printed


def _added(messages: Messages, kept: Messages) -> list[int]:
    """Return the indexes of the messages that are not among `kept`."""
    left = Counter(map(json_text.dumps, kept))
    places = []
    for index, message in enumerate(messages):
        text = json_text.dumps(message)
        if left[text] <= 0:
            places.append(index)
        left[text] -= 1
    return places
