"""Redaction: rules replace texts in a finished turn before it is hashed and published.

Rules see whole parts, so they find a secret that came in many deltas. They see every text of a turn: text and thinking,
prompts, tool arguments and results with all nested values (also member names, and integers as digits), data of events,
errors, and fields under `meta:*`; a run's facts about its thread (title, metadata, fields of agents and links); and the
data of telemetry. They don't see a turn's structure (kinds, ids, times, names of tools and agents), nor base64. They
see every text of the requests to models, where paths begin at a body.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pipeline.turns.canonical import sealed
from pipeline.turns.error_mask import masked
from pipeline.turns.partial_turns import PARTIAL, RETRACTED
from pipeline.turns.path_rules import AGENT, INTERRUPTION, LINK, MESSAGE, PART, THREAD, TURN, PathRule
from pipeline.turns.requests import changed
from topics import json_text, telemetry
from topics.json_text import Fields, object_of
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord
from turnmill.wire.nesting import with_room

CONTENT: Final = frozenset({"kind", "data", "media_type", "content_type", "identifier", "content_ref"})
FACTS: Final = ("thread", "agents", "links")  # fields of a turn record that hold facts about its thread
MASK: Final = "mask_errors"  # the name under which masked error texts are counted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule on texts. `apply` returns the redacted text, and the number of replacements."""

    name: str
    apply: Callable[[str], tuple[str, int]]


class Redaction:
    """Applies rules; `counts`: the replacements by each since the caller last emptied it."""

    def __init__(self, rules: Sequence[TextRule | PathRule], *, mask_errors: bool = False) -> None:
        self.texts = tuple(rule for rule in rules if isinstance(rule, TextRule))
        self.paths = tuple(rule for rule in rules if isinstance(rule, PathRule))
        self.mask_errors = mask_errors
        self.counts: dict[str, int] = {}

    def record(self, record: TurnRecord) -> TurnRecord:
        """Return a finished turn record redacted, with its hash; the same object if no rule applied."""
        return self._with_room(partial(self._record, record))

    def _record(self, record: TurnRecord) -> TurnRecord:
        turn: Fields | None = record["turn"]
        redacted, facts = turn, {key: record[key] for key in FACTS if record.get(key)}
        hidden = facts
        if turn is not None:
            masked_turn, hidden = self._masked(turn, facts)
            redacted = self._by_rules(masked_turn)
        known = self._facts(hidden)
        if redacted is not turn or any(known[key] != facts[key] for key in facts):
            record = sealed({**record, **known, "turn": redacted})  # type: ignore[typeddict-item]  # the same keys
        return changed(record, self.request)  # not part of the hash

    def request(self, body: Any) -> Any:
        """Return the body of a request, without its messages, redacted."""
        for rule in self.paths:
            body, count = rule.in_request(body)
            self._count(rule.name, count)
        return self.value(body) if self.texts else body

    def telemetry(self, record: TelemetryRecord) -> TelemetryRecord:
        """Return a telemetry record with its data redacted as in a system message of a turn.

        Raises TypeError if a function's result is not JSON.

        Derived records have only counts, and no path in a turn, so only rules on texts see them.
        """
        return self._with_room(partial(self._telemetry, record))

    def _telemetry(self, record: TelemetryRecord) -> TelemetryRecord:
        data = record["data"]
        if (self.paths or self.mask_errors) and not record.get("derived"):
            event = {"message_type": "system", "event_type": record["type"], "event_data": data}
            turn, _ = self._masked({"messages": [event]}, {})
            data = self._at_places(turn)["messages"][0]["event_data"]
        data = self.value(data) if self.texts else data
        if data is record["data"]:
            return record
        redacted: TelemetryRecord = {**record, "data": data}
        telemetry.encode(redacted)  # checked here, since its raw record is not known later
        return redacted

    def turn(self, turn: Fields) -> Fields:
        """Return a ThreadProtocol turn redacted; the same object if no rule applied."""
        return self._by_rules(self._masked(turn, {})[0])

    def words(self, text: str) -> str:
        """Return a user's text as in a redacted turn. Matches are not counted, since the turn counts them."""
        before, prompt = dict(self.counts), {"part_kind": "user-prompt", "content": text}
        turn = self._with_room(partial(self._by_rules, {"turn_type": "user", "parts": [prompt]}))
        self.counts = before
        match turn["parts"]:
            case [{"content": str(content)}]:
                return content
        return json_text.dumps(turn["parts"])

    def _masked(self, turn: Fields, facts: Fields) -> tuple[Fields, Fields]:
        if not self.mask_errors:
            return turn, facts
        turn, facts, count = masked(turn, facts)
        self._count(MASK, count)
        return turn, facts

    def _at_places(self, turn: Fields) -> Fields:
        for rule in self.paths:
            turn, count = rule.in_turn(turn)
            self._count(rule.name, count)
        return turn

    def _facts(self, facts: Fields) -> Fields:
        """Return a record's facts about its thread, redacted.

        Paths see a thread document: `$.title`, `$.agents[*]` etc.
        """
        if not facts:
            return facts
        thread = facts.get("thread") or {}
        document = {**thread, "agents": facts.get("agents"), "relationships": {"links": facts.get("links")}}
        for rule in self.paths:
            document, count = rule.in_thread(document)
            self._count(rule.name, count)
        agents, links = document.pop("agents"), document.pop("relationships")["links"]
        redacted = {
            "thread": self._members(document, THREAD),
            "agents": _each(agents or [], partial(self._members, kept=AGENT)),
            "links": _each(links or [], partial(self._members, kept=LINK)),
        }
        return {key: redacted[key] for key in facts}

    def _by_rules(self, turn: Fields) -> Fields:
        """Redact a turn, and its output under PARTIAL and RETRACTED, which has the form of a turn, too."""
        shown = {key: turn[key] for key in (PARTIAL, RETRACTED) if isinstance(turn.get(key), dict)}
        if not shown:
            return self._content_of(turn)
        rest = {key: value for key, value in turn.items() if key not in shown}
        kept = self._content_of(rest)
        redacted = {key: self._content_of(self._masked(value, {})[0]) for key, value in shown.items()}
        same = kept is rest and all(redacted[key] is value for key, value in shown.items())
        return turn if same else {**kept, **redacted}

    def _content_of(self, turn: Fields) -> Fields:
        turn = self._at_places(turn)
        if not self.texts:
            return turn
        special: dict[str, Callable[[Any], Any]] = {
            "messages": partial(_each, change=self._message),
            "parts": partial(_each, change=self._part),
            "interruption": partial(self._members, kept=INTERRUPTION),
            "total_usage": self._usage,
        }
        redacted: Fields = self._members(turn, TURN, special)
        return redacted

    def value(self, value: Any) -> Any:
        """Return a JSON value with each text redacted; the same object if no rule applied."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            text = str(value)
            redacted = self._text(text)
            return value if redacted == text else redacted
        if isinstance(value, list):
            return _each(value, self.value)
        if isinstance(value, dict):
            if value.get("kind") == "binary" and "data" in value:
                return self._members(value, CONTENT)
            return self._renamed(self._members(value, frozenset()))
        return value

    def _message(self, message: Any) -> Any:
        return self._members(message, MESSAGE, {"parts": partial(_each, change=self._part), "usage": self._usage})

    def _usage(self, usage: Any) -> Any:
        """Return usage with its texts redacted; integers there are counts, not texts."""
        return self._members(usage, frozenset(key for key, value in object_of(usage).items() if isinstance(value, int)))

    def _part(self, part: Any) -> Any:
        kind = object_of(part).get("part_kind")
        by_kind: dict[Any, Callable[[Any], Any]] = {
            "file": self._content,
            "user-prompt": partial(_each, change=self._content),
        }
        return self._members(part, PART, {"content": by_kind[kind]} if kind in by_kind else {})

    def _content(self, content: Any) -> Any:
        return self._members(content, CONTENT)

    def _members(
        self, value: Any, kept: frozenset[str], special: Mapping[str, Callable[[Any], Any]] | None = None
    ) -> Any:
        """Return an object with its members redacted, except those in `kept`; any other value redacted as a whole."""
        if not isinstance(value, dict):
            return self.value(value)
        copy: Fields | None = None
        for key, member in value.items():
            if key in kept:
                continue
            new = special[key](member) if special and key in special else self.value(member)
            if new is not member:
                copy = copy if copy is not None else dict(value)
                copy[key] = new
        return value if copy is None else copy

    def _renamed(self, value: Fields) -> Fields:
        """Return an object with its names redacted; names that become equal are numbered."""
        names = {key: self._text(key) for key in value}
        if all(new is key or new == key for key, new in names.items()):
            return value
        renamed: Fields = {}
        for key, member in value.items():
            name, number = names[key], 1
            while name in renamed:
                number += 1
                name = f"{names[key]} {number}"
            renamed[name] = member
        return renamed

    def _text(self, text: str) -> str:
        for rule in self.texts:
            text, count = rule.apply(text)
            if count:
                self._count(rule.name, count)
        return text

    def _with_room(self, call: Callable[[], T]) -> T:
        """Call `call` with stack for deep nesting. A first attempt without it may have counted, so reset the counts."""
        before = dict(self.counts)

        def once() -> T:
            self.counts = dict(before)
            return call()

        return with_room(once)

    def _count(self, name: str, count: int) -> None:
        if count:
            self.counts[name] = self.counts.get(name, 0) + count


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(values, list):
        return change(values)
    changed = [change(value) for value in values]
    return changed if any(new is not old for new, old in zip(changed, values, strict=True)) else values
