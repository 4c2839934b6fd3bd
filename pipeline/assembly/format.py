"""A form in which a conversation is given out and taken in: ThreadProtocol's own, or the messages of an SDK."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pipeline.assembly.builder import Builder
from pipeline.turns.branches import one_branch
from pipeline.turns.partial_turns import with_partials
from topics import json_text
from topics.json_text import Fields

Messages = Sequence[Fields]


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one SDK's messages.

    `split`: a history -> its exchanges, each what the user asked and what the agent did then. `fill`: an exchange into
    a builder -> how it ended, as in `finish`; None where the agent has not answered yet. `time`: when an exchange
    began, epoch ms, where its messages tell. All may raise KeyError, TypeError, AttributeError or InvalidRecord where
    these are no messages of this SDK.
    """

    split: Callable[[Messages], list[Messages]]
    fill: Callable[[Builder, Messages], str | None]
    time: Callable[[Messages], int | None] = lambda messages: None


class WrongOption(ValueError):
    """An option that a format does not take, or not with this value. `option` is its name, `why` completes it."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{option}: {why}")
        self.option = option
        self.why = why


@dataclass(frozen=True, slots=True)
class Format:
    """`write`: a ThreadProtocol document -> the SDK's messages; with `is_document`, a document again.

    `options`: keyword arguments that `write` takes, each with what raises ValueError for a value that is none.
    `reader` reads histories in this format; None: they can't be imported.
    """

    name: str
    write: Callable[..., Any]
    reader: Reader | None = None
    options: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    is_document: bool = False

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options as a caller gave them, None or False for none -> those for `write`. Raises WrongOption."""
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        for name, value in options.items():
            if name not in self.options:
                raise WrongOption(name, f"the format {self.name} has no such option")
            try:
                self.options[name](value)
            except ValueError as error:
                raise WrongOption(name, str(error)) from None
        return options

    def printed(self, document: Fields, *, branch: str | None = None, partial: bool = False, **options: Any) -> Fields:
        """Return a thread for callers: the document, or {"thread_id", "messages"}.

        `branch`: only the branch that this run is in. A document has all of them without it, messages the newest one.
        Raises UnknownBranch.

        `partial`: with what interrupted turns had shown and do not keep. SDKs have no mark for it, so that the answer
        also has the places of the messages that hold some of it: {"thread_id", "messages", "partial": [2]}.
        """
        if branch is not None or not self.is_document:
            document = one_branch(document, branch)
        written = self.write(with_partials(document) if partial else document, **options)
        if self.is_document:
            return cast("Fields", written)
        found = {"thread_id": document["thread_id"], "messages": written}
        return {**found, "partial": _added(written, self.write(document, **options))} if partial else found


def _added(messages: Messages, kept: Messages) -> list[int]:
    """Return the indexes of the messages that are not among `kept`."""
    left = Counter(map(json_text.dumps, kept))
    places = []
    for place, message in enumerate(messages):
        text = json_text.dumps(message)
        if not left[text]:
            places.append(place)
        left[text] -= 1
    return places
