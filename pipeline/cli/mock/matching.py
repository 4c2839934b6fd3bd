"""Finds the recorded call that matches a request, by messages, system prompt and tools. Pure.

Messages are compared in the form in which a capture compares conversations (`turnmill.capture.normal`), system prompt
and tools as JSON. Of several equal calls, the first that was not made yet matches, and then always the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from pipeline.cli.mock.calls import Call
from pipeline.dialects.asked_again import HISTORY, ON_SERVER
from pipeline.turns.redaction import Redaction
from pipeline.turns.requests import PROMPT, without_messages
from topics import json_text
from topics.json_text import Fields
from turnmill.capture.normal import NormalMessage, messages
from turnmill.capture.reading import request_names
from turnmill.capture.secrets import masked_settings

STREAMING: Final = frozenset({"stream", "stream_options"})  # not compared: an answer is available in either form
EXCERPT_CHARACTERS: Final = 160  # of a text that a message quotes


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in the form for comparison. `rest`: its parameters."""

    messages: Sequence[NormalMessage]
    prompt: Fields
    rest: Fields
    goes_on: bool  # the server has the history

    @classmethod
    def of(cls, dialect: str, body: Fields) -> Asked:
        """Read a request."""
        settings = without_messages(body, dialect) or {}
        prompt = {name: settings[name] for name in PROMPT if settings.get(name)}
        rest = {name: value for name, value in settings.items() if name not in {*STREAMING, *ON_SERVER, *PROMPT}}
        goes_on = bool(body.get("conversation")) or request_names({}, body).response is not None
        return cls(messages(dialect, body), prompt, rest, goes_on)

    def same_words(self, recorded: Asked) -> bool:
        """Return True if the messages are those of a recorded request, or its newest ones."""
        if self.goes_on and self.messages:
            return list(recorded.messages[-len(self.messages) :]) == list(self.messages)
        return list(recorded.messages) == list(self.messages)


@dataclass(frozen=True, slots=True)
class Match:
    """The call that matches a request, and other differences; or why none matches."""

    call: Call | None
    problem: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Tape:
    """The recorded calls, and which were made so far. `redaction`: applied to requests before the comparison."""

    calls: Sequence[Call]
    strict: bool = False
    redaction: Redaction | None = None
    made: set[int] = field(default_factory=set)
    recorded: list[Asked] = field(init=False)

    def __post_init__(self) -> None:
        self.recorded = [Asked.of(call.dialect, call.request) for call in self.calls]

    @property
    def unused(self) -> list[Call]:
        """The recorded calls that were not made."""
        return [call for number, call in enumerate(self.calls) if number not in self.made]

    def match(self, dialect: str, body: Fields) -> Match:
        """Return the recorded call that matches a request."""
        asked = Asked.of(dialect, self._redacted(dialect, body))
        of_wire = [number for number, call in enumerate(self.calls) if call.dialect == dialect]
        alike = [number for number in of_wire if asked.same_words(self.recorded[number])]
        known = asked.goes_on and not asked.prompt  # the server has it, too
        same = [n for n in alike if known or not self.calls[n].settings or self.recorded[n].prompt == asked.prompt]
        if not same:
            return Match(None, self._difference(asked, alike or of_wire, dialect))
        number = next((number for number in same if number not in self.made), same[-1])
        call, recorded = self.calls[number], self.recorded[number]
        warnings = tuple(_differing(recorded.rest, asked.rest)) if call.settings else ()
        if warnings and self.strict:
            return Match(None, f"{warnings[0]} (--strict)")
        self.made.add(number)
        return Match(call, warnings=warnings)

    def _redacted(self, dialect: str, body: Fields) -> Fields:
        masked: Fields = masked_settings(dialect, body)[0]
        if self.redaction is None:
            return masked
        history = HISTORY[dialect][0]
        rest = {name: value for name, value in masked.items() if name != history}
        conversation = {history: self.redaction.value(masked[history])} if history in masked else {}
        return {**self.redaction.request(rest), **conversation}

    def _difference(self, asked: Asked, numbers: Sequence[int], dialect: str) -> str:
        """Return how a request differs from the most similar recorded request."""
        if not numbers:
            has = ", ".join(sorted({call.dialect for call in self.calls})) or "none"
            return f"the run made no call of {dialect}; its calls are of: {has}"
        nearest = max(numbers, key=lambda number: _same_beginning(asked.messages, self.recorded[number].messages))
        recorded, run = self.recorded[nearest], self.calls[nearest].run
        name = f"call {nearest + 1} of {len(self.calls)} (run {run})"
        if asked.same_words(recorded):
            return f"the run made no such request; of {name}, {next(_differing(recorded.prompt, asked.prompt))}"
        at = _same_beginning(asked.messages, recorded.messages)
        was, now = [_shown(r.messages[at]) if at < len(r.messages) else "nothing" for r in (recorded, asked)]
        return f"the run made no such request; of {name}, message {at + 1} was {was}, and is {now}"


def _differing(before: Fields, after: Fields) -> Any:
    """Yield the differences between the members of two requests."""
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if isinstance(was, list) and isinstance(now, list):
            index, was, now = next((n, a, b) for n, (a, b) in enumerate(zip_longest(was, now)) if a != b)
            name = f"{name}[{index}]"  # noqa: PLW2901  # with the index in the list
        was, now = (value if isinstance(value, str) else json_text.dumps(value) for value in (was, now))
        begin = max(0, _same_beginning(was, now) - EXCERPT_CHARACTERS // 4)  # shown from where they differ
        yield f"{name} was {_cut(was, begin)}, and is {_cut(now, begin)}"


def _cut(text: str, begin: int = 0) -> str:
    shown = text[begin : begin + EXCERPT_CHARACTERS]
    return f"{'…' if begin else ''}{shown}{'…' if len(text) > begin + EXCERPT_CHARACTERS else ''}"


def _shown(message: NormalMessage) -> str:
    calls = f", with the calls {', '.join(message.calls)}" if message.calls else ""
    return f"{message.role}: {_cut(message.text)!r}{calls}"


def _same_beginning(some: Sequence[object], others: Sequence[object]) -> int:
    return next((n for n, (a, b) in enumerate(zip(some, others, strict=False)) if a != b), min(len(some), len(others)))
