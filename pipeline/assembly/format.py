"""A format in which a conversation is exported and imported: ThreadProtocol's, or the messages of an SDK."""

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

    def printed(self, document: Fields, *, branch: str | None = None, partial: bool = False, **options: Any) -> Fields:
        """Return a thread for callers: the document, or {"thread_id", "messages"}.

        `branch`: only the branch with this run. Without it, a document has all branches, messages are of the newest.
        Raises UnknownBranch.

        `partial`: include what interrupted turns had shown, but do not keep. SDKs have no mark for it, so the result
        also has the indexes of the messages with such content: {"thread_id", "messages", "partial": [2]}.
        """
        if branch is not None or not self.is_document:
            document = one_branch(document, branch)
        written = self.write(with_partials(document) if partial else document, **options)
        if self.is_document:
            return cast("Fields", written)
        printed = {"thread_id": document["thread_id"], "messages": written}
        return {**printed, "partial": _added(written, self.write(document, **options))} if partial else printed


def _added(messages: Messages, kept: Messages) -> list[int]:
    """Return the indexes of the messages that are not among `kept`."""
    left = Counter(map(json_text.dumps, kept))
    places = []
    for index, message in enumerate(messages):
        text = json_text.dumps(message)
        if not left[text]:
            places.append(index)
        left[text] -= 1
    return places
