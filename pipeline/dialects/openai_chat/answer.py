"""The answer to a call: collects the parts of a response from its chunks.

Strings are appended; null, "" and missing keys change nothing. The wire has no order among the kinds of content, so a
response has one thought, one text, one refusal, one transcript, then files, then calls.

Which fragments of calls belong together differs from server to server. Fragments of a call have its `index`. Without
one, a new id begins a new call. Id and name come once, or are repeated in each fragment; arguments are appended.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_chat.keys import META, REFUSAL, note
from pipeline.dialects.vercel_ai.content import file_content
from pipeline.dialects.wire_values import number_or_none, objects, text_or_empty
from pipeline.turns import tokens
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics import json_text
from topics.json_text import Fields

CACHES: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic's names
THOUGHTS: Final = ("reasoning_content", "reasoning")  # the names that servers use for the same thought
ORDER: Final = ("thinking", "text", "refusal", "transcript", "audio", "file")
# The kind of the part that a text of a delta extends.
GROWING: Final[dict[str, Literal["text", "thinking"]]] = {"content": "text", **dict.fromkeys(THOUGHTS, "thinking")}
KNOWN: Final = frozenset({"role", "content", "refusal", "reasoning_details", "tool_calls", "function_call", "audio"})
LISTS: Final = frozenset({"images", "annotations", "executed_tools"})
FUNCTION_CALL: Final = "function_call"  # the single call of the API before a message had several
ID: Final = "tool_call_id"
CUSTOM: Final = "meta:custom"  # of a call whose tool takes a text


@dataclass(slots=True, eq=False)
class ChoiceAnswer:
    """One choice of a call. `parts`: by their kinds in ORDER. `finish`: the finish_reason, None until it comes."""

    response: Message
    tool_calls: ToolCalls = field(init=False)
    parts: dict[str, Part] = field(default_factory=dict)
    files: list[Part] = field(default_factory=list)
    thought_in: str | None = None
    details: list[Fields] = field(default_factory=list)
    sound: list[bytes] = field(default_factory=list)
    annotations: list[Fields] = field(default_factory=list)
    executed: list[Any] = field(default_factory=list)
    finish: str | None = None
    settled: bool = False

    def __post_init__(self) -> None:
        self.tool_calls = ToolCalls(self.response)

    def add(self, delta: Fields, at: int, *, whole: bool = False) -> None:
        """Add the delta of a chunk, or a `whole` message."""
        before = len(self.response.parts)
        self._add_thought(delta)
        self._add_content(delta.get("content"))
        self._append("refusal", delta.get("refusal"))
        audio = delta.get("audio")
        if isinstance(audio, dict):
            self._add_audio(audio)
        for image in objects(delta.get("images")):
            self._add_image(image)
        self.annotations += objects(delta.get("annotations"))
        executed = delta.get("executed_tools")
        self.executed += executed if isinstance(executed, list) else ()
        self.tool_calls.add(delta, whole=whole)
        for key, value in delta.items():
            if key not in KNOWN and key not in LISTS and key not in THOUGHTS and value is not None:
                note(self.response.fields, {key: _joined(self.response.fields.get(META, {}).get(key), value)})
        if self.response.first_part_at is None and len(self.response.parts) > before:
            self.response.first_part_at = at

    def growing(self, key: str) -> Part | None:
        """Return the part that a delta's text under this key extends.

        None if it begins the part, or repeats all of it.
        """
        return self.parts.get(GROWING[key]) if key in ("content", self.thought_in) else None

    def settle(self, *, whole: bool) -> None:
        """Settle the call: order its parts, and close them if it ended well."""
        if self.settled:
            return
        self.settled = True
        if self.details:
            thought = self._part("thinking")
            note(thought.fields, {"reasoning_details": self.details})
            signature = next((detail["signature"] for detail in self.details if detail.get("signature")), None)
            if isinstance(signature, str):
                thought.fields["signature"] = signature
        if self.sound:
            data = base64.b64encode(b"".join(self.sound)).decode()
            self.parts["audio"] = Part({"part_kind": "custom:audio", "data": data})
        ordered = [self.parts[kind] for kind in ORDER if kind in self.parts]
        calls = self.tool_calls.settle(whole=whole)
        self.response.parts[:] = [*ordered, *self.files, *calls]
        for part in (*ordered, *self.files):
            part.done = whole
        self.response.closed = whole

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools."""
        return self.tool_calls.calls

    def json_parts(self) -> list[Fields]:
        """Return the parts as JSON."""
        pairs = ((part.fields, join(part.chunks)) for part in self.response.parts)
        return [{**fields, "content": text} if text and "content" in fields else fields for fields, text in pairs]

    def _part(self, kind: str) -> Part:
        part = self.parts.get(kind)
        if part is None:
            part = self.parts[kind] = Part({"part_kind": "thinking" if kind == "thinking" else "text", "content": ""})
            if kind == "refusal":
                part.fields[REFUSAL] = True
            self.response.parts.append(part)
        return part

    def _append(self, kind: str, text: Any) -> None:
        if isinstance(text, str) and text:
            self._part(kind).chunks.append(text)

    def _add_thought(self, delta: Fields) -> None:
        """Add a thought. It comes under one key or several at once: the first one with a text counts."""
        details = objects(delta.get("reasoning_details"))
        for detail in details:
            self._add_detail(detail)
        texts = {key: delta[key] for key in THOUGHTS if isinstance(delta.get(key), str)}
        texts["reasoning_details"] = "".join(_text_of(detail) for detail in details)
        for key, text in texts.items():
            if text and self.thought_in in (None, key):
                self.thought_in = key
                self._append("thinking", text)
                if key in THOUGHTS:
                    note(self._part("thinking").fields, {"key": key})

    def _add_detail(self, detail: Fields) -> None:
        """Add a piece of a detail, which is known by index and type: texts are joined, all else is replaced."""
        for known in reversed(self.details):
            if known.get("index") == detail.get("index") and known.get("type") == detail.get("type"):
                for key, value in detail.items():
                    if key in ("text", "summary") and isinstance(value, str):
                        known[key] = (known.get(key) or "") + value
                    elif value is not None:
                        known[key] = value
                return
        self.details.append(dict(detail))

    def _add_content(self, content: Any) -> None:
        """Add a text, or typed pieces of text and thought; any other JSON is a text (Cloudflare's JSON mode)."""
        pieces = objects(content)
        if isinstance(content, str):
            self._append("text", content)
        elif content is not None and not (
            isinstance(content, list) and sum("type" in p for p in pieces) == len(content)
        ):
            self._append("text", json_text.dumps(content))
            return
        for piece in pieces:
            match piece:
                case {"type": "text", "text": str(text)}:
                    self._append("text", text)
                case {"type": "thinking", "thinking": thought}:
                    for item in [{"text": thought}] if isinstance(thought, str) else objects(thought):
                        self._append("thinking", item.get("text"))
                case {"type": "refusal", "refusal": str(text)}:
                    self._append("refusal", text)
                case {"type": "image_url"}:
                    self._add_image(piece)
                case _:
                    part = Part({"part_kind": f"custom:{piece.get('type')}", "block": piece})
                    self.files.append(part)
                    self.response.parts.append(part)

    def _add_audio(self, audio: Fields) -> None:
        self._append("transcript", audio.get("transcript"))
        about = {key: audio[key] for key in ("id", "expires_at") if audio.get(key) is not None}
        if about:
            note(self.response.fields, {"audio": {**self.response.fields.get(META, {}).get("audio", {}), **about}})
        if isinstance(audio.get("data"), str):
            try:
                self.sound.append(base64.b64decode(audio["data"]))  # each piece is encoded separately
            except (binascii.Error, ValueError):
                return

    def _add_image(self, image: Fields) -> None:
        address = image.get("image_url")
        url = address.get("url") if isinstance(address, dict) else address
        if isinstance(url, str):
            head = url.partition(",")[0]
            media = head.removeprefix("data:").partition(";")[0] if head.startswith("data:") else ""
            part = Part({"part_kind": "file", "content": file_content(url, media or "image/*")})
            self.files.append(part)
            self.response.parts.append(part)


def _text_of(detail: Fields) -> str:
    return text_or_empty(detail.get("text" if detail.get("type") != "reasoning.summary" else "summary"))


def _joined(before: Any, value: Any) -> Any:
    """Return the joined value: texts and lists grow from chunk to chunk, all else is replaced."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    return value


def usage_of(event: Fields) -> Fields | None:
    """Return the usage in a chunk, by the wire's names; None if it has none."""
    usage = event.get("usage")
    if not (isinstance(usage, dict) and usage):
        usage = _usage_inside(event)
    if not (isinstance(usage, dict) and usage):
        return None
    total, asked, output = (
        number_or_none(usage.get(key)) for key in ("total_tokens", "prompt_tokens", "completion_tokens")
    )
    if asked is None or output is None:
        return usage
    if total is not None and total > asked + output:
        return usage | _beside(usage, total - asked - output)
    if not usage.keys().isdisjoint(CACHES) and (cached := _cached(tokens.counts(usage))) > asked:
        return {**usage, "prompt_tokens": asked + cached, "total_tokens": asked + cached + output}
    return usage


def _usage_inside(event: Fields) -> Any:
    """Return the usage where Groq and Moonshot write it."""
    groq, choices = event.get("x_groq"), event.get("choices")
    if isinstance(groq, dict):
        return groq.get("usage")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice.get("usage") if isinstance(choice, dict) else None


def _beside(usage: Fields, rest: int) -> Fields:
    """Return the counts that change if the total has `rest` more tokens than prompt and completion together.

    These are caches beside the prompt (Anthropic's, behind some gateways), or else thoughts beside the completion; a
    rest that is neither of the counts told, where thoughts are told, is not known.
    """
    known = tokens.counts(usage)
    cached = _cached(known)
    thoughts = known.get("thinking_tokens", 0)
    more = cached if rest in (cached, cached + thoughts) else 0
    changed: Fields = {"prompt_tokens": usage["prompt_tokens"] + more} if more else {}
    if rest > more and (rest - more == thoughts or not thoughts):
        changed["completion_tokens"] = usage["completion_tokens"] + rest - more
        details = usage.get("completion_tokens_details")
        told = details if isinstance(details, dict) else {}
        changed |= {} if thoughts else {"completion_tokens_details": {**told, "reasoning_tokens": rest - more}}
    return changed


def _cached(counts: dict[str, int]) -> int:
    return counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)


@dataclass(slots=True, eq=False)
class ToolCalls:
    """The calls of a response, in the order in which they began."""

    response: Message
    calls: list[Part] = field(default_factory=list)
    by_index: dict[int, Part] = field(default_factory=dict)
    old: Part | None = None

    def add(self, delta: Fields, *, whole: bool) -> None:
        """Add a delta's fragments of calls; in a `whole` message each entry is a call."""
        deltas = delta.get("tool_calls")
        for fragment in deltas if isinstance(deltas, list) else ():
            if isinstance(fragment, dict):
                self._add_fragment(fragment, whole=whole)
        function = delta.get(FUNCTION_CALL)
        if isinstance(function, dict):
            self.old = self.old or self._open()
            _extend(self.old, None, function)

    def settle(self, *, whole: bool) -> list[Part]:
        """Return the calls; if the response is whole, with their arguments as data."""
        for call in self.calls if whole else ():
            text = join(call.chunks)
            call.fields["args"] = {"input": text} if call.fields.get(CUSTOM) else arguments(text)
            call.chunks.clear()
            call.done = True
        return self.calls

    def _add_fragment(self, fragment: Fields, *, whole: bool) -> None:
        function = fragment.get("function") or fragment.get("custom")
        function = function if isinstance(function, dict) else {}
        call_id = fragment.get("id")
        call_id = call_id if isinstance(call_id, str) and call_id else None
        index = fragment.get("index")
        call: Part | None
        if whole:
            call = self._open()
        elif isinstance(index, int):
            call = self.by_index.get(index)
            if call is None or (call_id and call.fields[ID] not in ("", call_id)):
                call = self.by_index[index] = self._open()
        else:
            call = self._by_id(call_id, function.get("name")) or self._open()
        if "custom" in fragment:
            call.fields[CUSTOM] = True
        _extend(call, call_id, function)

    def _by_id(self, call_id: str | None, name: Any) -> Part | None:
        """Return the call that a fragment without index belongs to; None: a new one."""
        if call_id is not None:
            return next((call for call in self.calls if call.fields[ID] == call_id), None)
        last = self.calls[-1] if self.calls else None
        return None if last is not None and name and last.chunks else last

    def _open(self) -> Part:
        call = Part({"part_kind": "tool-call", "tool_name": "", ID: "", "args": None})
        self.calls.append(call)
        self.response.parts.append(call)
        return call


def _extend(call: Part, call_id: str | None, function: Fields) -> None:
    name, text = function.get("name"), function.get("arguments", function.get("input"))
    if call_id and not call.fields[ID]:
        call.fields[ID] = call_id
    if isinstance(name, str) and not call.fields["tool_name"]:
        call.fields["tool_name"] = name
    if isinstance(text, str) and text:
        call.chunks.append(text)
    elif text is not None and not isinstance(text, str):  # some servers write them as data
        call.chunks.append(json_text.dumps(text))
