"""Redaction: what rules find in a finished turn is replaced, before the turn is hashed and goes anywhere.

Rules see whole parts, so a secret that came in many deltas is found. They see every text of a turn: what was said and
thought, prompts, tool arguments and results with all that is nested in them (names of members, and integers by their
digits), data of events, errors, and notes under `meta:*`; and a thread's title and metadata. They don't see what
makes a turn a turn (kinds, ids, times, names of tools and agents), nor base64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pipeline.turns.canonical import sealed
from pipeline.turns.error_mask import masked
from pipeline.turns.json_path import JsonPath, Place
from topics.json_text import Fields
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord

TURN: Final = frozenset(
    {"turn_type", "agent_id", "submitted_at", "started_at", "completed_at", "completion_status"}
    | {"meta:turn_id", "meta:run_id", "meta:missing"}
)
INTERRUPTION: Final = frozenset({"reason", "interrupted_at"})
MESSAGE: Final = frozenset(
    {"message_type", "timestamp", "agent_id", "model_name", "provider_name", "finish_reason", "event_type"}
    | {"source_agent", "target_agents", "meta:after_part"}
)
PART: Final = frozenset(
    {"part_kind", "tool_name", "tool_call_id", "id", "status", "signature", "thinking_id", "provider_name"}
    | {"content_ref"}
)
CONTENT: Final = frozenset({"kind", "data", "media_type", "content_type", "identifier", "content_ref"})
CONTAINERS: Final = frozenset({"messages", "parts", "interruption", "client_metadata"})
THREAD: Final = frozenset({"external_id", "ended_at", "created_at", "updated_at"})
MASK: Final = "mask_errors"  # the name under which masked error texts are counted


@dataclass(frozen=True, slots=True)
class TextRule:
    """`apply` takes a text -> the text, and how many finds were replaced in it."""

    name: str
    apply: Callable[[str], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PathRule:
    """Whatever is at `path` of a turn becomes the text `replace`."""

    name: str
    path: JsonPath
    replace: str


class Redaction:
    """Rules, and how often each has found something since `counts` was last taken."""

    def __init__(self, rules: Sequence[TextRule | PathRule], *, mask_errors: bool = False) -> None:
        self.texts = tuple(rule for rule in rules if isinstance(rule, TextRule))
        self.paths = tuple(rule for rule in rules if isinstance(rule, PathRule))
        self.mask_errors = mask_errors
        self.counts: dict[str, int] = {}

    def record(self, record: TurnRecord) -> TurnRecord:
        """A finished turn record -> the same, redacted, with its hash; the very same where nothing was found."""
        turn = record["turn"]
        redacted = self.turn(turn) if turn is not None else None
        facts: Fields = {}
        if record.get("thread"):
            facts["thread"] = self._members(record["thread"], THREAD)
        if record.get("links"):
            facts["links"] = [self._members(link, frozenset({"from", "thread_id"})) for link in record["links"]]
        if redacted is turn and all(facts[key] == record[key] for key in facts):  # type: ignore[literal-required]
            return record
        return sealed({**record, **facts, "turn": redacted})  # type: ignore[typeddict-item]  # the same keys

    def telemetry(self, record: TelemetryRecord) -> TelemetryRecord:
        """A telemetry record -> the same, its data redacted by the rules on texts."""
        data = self.value(record["data"])
        return record if data is record["data"] else {**record, "data": data}

    def turn(self, turn: Fields) -> Fields:
        """A ThreadProtocol turn -> redacted; the very same where nothing was found."""
        if self.mask_errors:
            turn, count = masked(turn)
            self._count(MASK, count)
        for rule in self.paths:
            turn = rule.path.replaced(turn, self._replacing(rule))
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
        """A JSON value -> with each text in it redacted; the very same where nothing was found."""
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
        """Counts are no texts."""
        counts = (key for key, value in usage.items() if isinstance(value, int)) if isinstance(usage, dict) else ()
        return self._members(usage, frozenset(counts))

    def _part(self, part: Any) -> Any:
        kind = part.get("part_kind") if isinstance(part, dict) else None
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
        """An object's members redacted, but those `kept`; what is no object is redacted as it is."""
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
        """An object with its names redacted; names that become the same are numbered."""
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

    def _replacing(self, rule: PathRule) -> Callable[[Place, Any], Any]:
        def change(place: Place, value: Any) -> Any:
            if _structural(place) or value in (rule.replace, {"redacted": rule.replace}):
                return value
            self._count(rule.name, 1)
            if place[-1] == "args" and "parts" in place[-3:-2]:  # arguments are data
                return {"redacted": rule.replace}
            if (
                place[-1] == "content" and isinstance(value, dict) and {"data", "url"} & value.keys()
            ):  # a file stays one
                return {"kind": "binary", "data": "", "media_type": "text/plain", "identifier": rule.replace}
            return rule.replace

        return change

    def _count(self, name: str, count: int) -> None:
        if count:
            self.counts[name] = self.counts.get(name, 0) + count


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(values, list):
        return change(values)
    changed = [change(value) for value in values]
    return changed if any(new is not old for new, old in zip(changed, values, strict=True)) else values


def _structural(place: Place) -> bool:
    """Whether a turn would be none without what stands there."""
    if "usage" in place[2:3] or place[0] == "total_usage":
        return True
    kept = TURN | CONTAINERS
    if place[0] == "messages" and len(place) > 2:
        place, kept = place[2:], MESSAGE | CONTAINERS
    if place[0] == "parts" and len(place) > 2:
        return len(place) == 3 and place[2] in PART
    if place[0] == "interruption" and len(place) == 2:
        return place[1] in INTERRUPTION
    return place[0] in (kept if len(place) == 1 else ("messages", "parts")) and len(place) <= 2
