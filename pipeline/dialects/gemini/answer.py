"""The answer to a call: collects the parts of a candidate from its responses.

Consecutive texts of one kind are one part, until one of them is signed: a signature closes it. A call whose arguments
come in pieces (`partialArgs`) is one part as well, until a piece no longer has `willContinue`. Each piece has its path:
`{"jsonPath": "$.stops[0].city", "stringValue": "Pa"}`. Text for a path that already has a text is appended. A list is
padded with null up to an index beyond its end.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.gemini.request import call_id
from pipeline.dialects.google_adk.event import finish_reason
from pipeline.dialects.google_adk.parts import CODE, META, parts_of, response_part, spelled
from pipeline.dialects.google_adk.whole import pages
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import note_under
from pipeline.turns.text import join
from topics.json_text import Fields

UNSPECIFIED: Final = "FINISH_REASON_UNSPECIFIED"
GROWING: Final = frozenset({"text", "thinking"})
OF_CANDIDATE: Final = frozenset({"content", "index"})
STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")
MAX_INDEX: Final = 10_000  # the largest list index: a path must not make us fill memory


@dataclass(slots=True, eq=False)
class CandidateAnswer:
    """One candidate of a call.

    `first_call`: the number of its first call without an id. `growing`: the text that the next text extends.
    `unfinished`: the call whose arguments are incomplete. `finish`: the finishReason, None until it comes. `blocked`:
    there is no candidate at all. `pages`: URLs of the answer's sources, with their titles. `grounding`: its searches.
    """

    response: Message
    first_call: int = 0
    nameless: int = 0
    growing: Part | None = None
    unfinished: Part | None = None
    code: str | None = None
    finish: str | None = None
    blocked: bool = False
    pages: dict[str, Any] = field(default_factory=dict)
    grounding: list[Any] = field(default_factory=list)
    settled: bool = False

    def add(self, candidate: Fields, at: int) -> None:
        """Add a response's part of the candidate. Raises TypeError or KeyError if it is malformed."""
        content = candidate.get("content")
        parts = [self._read(part) for part in parts_of(content).values()]
        before = len(self.response.parts)
        for fields, raw in parts:
            self._put(fields, raw)
        if self.response.first_part_at is None and len(self.response.parts) > before:
            self.response.first_part_at = at
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason != UNSPECIFIED:
            self.finish = reason
        self.pages |= pages(candidate)
        if "groundingMetadata" in candidate:
            self.grounding.append(candidate["groundingMetadata"])
        note_under(META, self.response.fields, {k: v for k, v in candidate.items() if k not in OF_CANDIDATE})

    def grows(self, *, is_thought: bool) -> bool:
        """Return True if a text, or a thought, extends the last part."""
        return self.growing is not None and (self.growing.fields["part_kind"] == "thinking") == is_thought

    def append(self, text: str) -> None:
        """Append to the growing text."""
        if self.growing is not None:
            self.growing.chunks.append(text)

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools."""
        return [part for part in self.response.parts if part.fields["part_kind"] == "tool-call"]

    def settle(self, *, whole: bool) -> None:
        """Finish the call: close its parts and set its finish reason."""
        if self.settled:
            return
        self.settled = True
        for part in self.response.parts:
            part.done = whole and part is not self.unfinished
        self.response.closed = whole
        self.response.keep_empty = self.response.keep_empty or (whole and not self.response.parts)
        reason = "content_filter" if self.blocked else finish_reason({"finishReason": self.finish})
        if reason is not None:
            self.response.fields["finish_reason"] = reason

    def parts(self) -> list[Fields]:
        """Return the parts as JSON."""
        pairs = ((part.fields, join(part.chunks)) for part in self.response.parts)
        return [{**fields, "content": text} if text else fields for fields, text in pairs]

    def _read(self, part: Fields) -> tuple[Fields, Fields]:
        """Return the fields of a part, and the part as it came. Changes nothing."""
        if "functionCall" not in part:
            return response_part(part, "", None), part
        call = spelled(part["functionCall"])
        if self.unfinished is None or call.get("name"):
            whole = {key: value for key, value in call.items() if key not in ("partialArgs", "willContinue")}
            return response_part({**part, "functionCall": whole}, "", None), part
        pieces = [spelled(piece) for piece in call.get("partialArgs") or ()]
        return {"part_kind": "piece", "pieces": pieces}, part

    def _put(self, fields: Fields, raw: Fields) -> None:
        kind = fields["part_kind"]
        if kind in GROWING:
            self._put_text(fields)
            return
        self.growing = None
        if kind == "piece":
            self._continue(fields["pieces"], spelled(raw["functionCall"]))
            return
        if kind == "tool-call":
            fields["tool_call_id"] = fields["tool_call_id"] or self._next_id()
        elif kind == "builtin-tool-call":
            self.code = fields["tool_call_id"] = fields["tool_call_id"] or self._next_id()
        elif kind == "builtin-tool-return":
            fields["tool_call_id"] = fields["tool_call_id"] or self.code or CODE
        part = Part(fields)
        self.response.parts.append(part)
        if kind == "tool-call":
            call = spelled(raw["functionCall"])
            self.unfinished = part if call.get("willContinue") is True else None
            self._continue([spelled(piece) for piece in call.get("partialArgs") or ()], call)

    def _continue(self, pieces: list[Fields], call: Fields) -> None:
        """Add pieces to the unfinished call's arguments; a piece without `willContinue` is the last."""
        if self.unfinished is None:
            return
        args = self.unfinished.fields["args"]
        for piece in pieces:
            put(args, piece)
        if isinstance(call.get("args"), dict):
            args.update(call["args"])
        if call.get("willContinue") is not True:
            self.unfinished = None

    def _put_text(self, fields: Fields) -> None:
        text = fields["content"]
        same = self.growing is not None and self.growing.fields["part_kind"] == fields["part_kind"]
        if self.growing is None or not same or META in fields:
            self.growing = Part({**fields, "content": ""})
            self.response.parts.append(self.growing)
        if text:
            self.growing.chunks.append(text)
        for key in ("signature", SIGNATURE):
            if key in fields:
                self.growing.fields[key] = fields[key]
        if fields.keys() & {"signature", SIGNATURE, META}:
            self.growing = None

    def _next_id(self) -> str:
        """Return an id for a call without one: its number among all such calls of the conversation."""
        self.nameless += 1
        return call_id(self.first_call + self.nameless - 1)


class TextResponse(NamedTuple):
    """A response with nothing but one text: its tokens, and its other fields."""

    text: str
    is_thought: bool
    counts: Fields
    beside: Fields


def text_of(event: Any) -> TextResponse | None:
    """Return the text of a response with one candidate and one text, without signature or end; None for any other."""
    match event:
        case {"candidates": [{"content": {"parts": [{"text": str(text), **part}], **content}, **candidate}], **beside}:
            pass
        case _:
            return None
    if not text or part not in ({}, {"thought": True}) or content.keys() - {"role"}:
        return None
    if candidate.keys() - {"index"} or candidate.get("index", 0) != 0:
        return None
    counts = beside.pop("usageMetadata", {})
    if not isinstance(counts, dict) or beside.keys() - {"modelVersion", "responseId"}:
        return None
    if None in counts.values() or any("_" in key for key in counts):
        return None
    return TextResponse(text, bool(part), counts, {str(key): value for key, value in beside.items()})


def put(args: Fields, piece: Fields) -> None:
    """Put the value of a piece at its path. Raises Violation if the path is malformed."""
    steps = _steps(piece.get("jsonPath"))
    name = next((key for key in VALUES if key in piece), None)
    if name is None or not steps:
        return
    holder: Any = args
    for step, following in pairwise(steps):
        inner = _at(holder, step)
        if not isinstance(inner, list if isinstance(following, int) else dict):
            inner = [] if isinstance(following, int) else {}
            _set(holder, step, inner)
        holder = inner
    value = None if name == "nullValue" else piece[name]
    before = _at(holder, steps[-1])
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    _set(holder, steps[-1], value)


def _steps(path: Any) -> list[str | int]:
    """Return the steps of a path: "$.a[0]" -> ["a", 0]."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise Violation(f"'jsonPath' is a path, got {path!r:.80}")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = STEP.match(path, at)
        if match is None or (match[2] is not None and int(match[2][:6]) >= MAX_INDEX):
            raise Violation(f"'jsonPath' is a path, got {path!r:.80}")
        name = next((group for group in (match[1], match[3], match[4]) if group is not None), "")
        steps.append(int(match[2]) if match[2] is not None else name)
        at = match.end()
    return steps


def _at(holder: Any, step: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[step] if isinstance(step, int) and step < len(holder) else None


def _set(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(holder, list) and isinstance(step, int):
        holder.extend([None] * (step + 1 - len(holder)))
    holder[step] = value
