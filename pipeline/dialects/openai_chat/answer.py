"""The answer to a call: collects the parts of a response from its chunks.

Strings are appended; null, "" and missing keys change nothing. The wire has no order among the kinds of content, so a
response has one thought, one text, one refusal, one transcript, then files, then calls.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_chat.calls import ToolCalls, signature_in
from pipeline.dialects.openai_chat.keys import META, REFUSAL, note
from pipeline.dialects.openai_chat.thoughts import BLOCKS, Blocks, Piece, blocks_in, text_of, with_more
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.vercel_ai.content import file_content
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.text import join
from topics import json_text
from topics.json_text import Fields, list_of, objects

THOUGHTS: Final = ("reasoning_content", "reasoning")  # the names that servers use for the same thought
ORDER: Final = ("text", "refusal", "transcript", "audio", "file")
# The kind of the part that a text of a delta extends.
GROWING: Final[dict[str, Literal["text", "thinking"]]] = {"content": "text", **dict.fromkeys(THOUGHTS, "thinking")}
BESIDE: Final = "provider_specific_fields"  # of LiteLLM: what Chat Completions has no place for
OF_GATEWAYS: Final = frozenset({BESIDE, *BLOCKS})
LISTS: Final = frozenset({"images", "annotations", "executed_tools"})
THINKING: Final = frozenset({"reasoning_details", *THOUGHTS})
CONTENT: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "audio"})
READ: Final = CONTENT | THINKING | LISTS | OF_GATEWAYS  # what else a delta has is kept beside


@dataclass(slots=True, eq=False)
class ChoiceAnswer:
    """One choice of a call. `parts`: by their kinds in ORDER. `finish`: the finish_reason, None until it comes.

    `failed`: it is that of an error.
    """

    response: Message
    tool_calls: ToolCalls = field(init=False)
    parts: dict[str, Part] = field(default_factory=dict)
    files: list[Part] = field(default_factory=list)
    thought_in: str | None = None
    details: list[Fields] = field(default_factory=list)
    sound: list[bytes] = field(default_factory=list)
    annotations: list[Fields] = field(default_factory=list)
    executed: list[Any] = field(default_factory=list)
    blocks: Blocks | None = None
    beside: Fields | None = None
    finish: str | None = None
    failed: bool = False
    settled: bool = False

    def __post_init__(self) -> None:
        self.tool_calls = ToolCalls(self.response)

    def add(self, delta: Fields, at: int, *, whole: bool = False) -> None:
        """Add the delta of a chunk, or a `whole` message."""
        before = len(self.response.parts)
        if not OF_GATEWAYS.isdisjoint(delta):
            self._add_blocks(delta, whole=whole)
        elif not THINKING.isdisjoint(delta):
            self._add_thought(delta)
        self._add_content(delta.get("content"))
        self._append("refusal", delta.get("refusal"))
        audio = delta.get("audio")
        if isinstance(audio, dict):
            self._add_audio(audio)
        if not LISTS.isdisjoint(delta):
            for image in objects(delta.get("images")):
                self._add_image(image)
            self.annotations += objects(delta.get("annotations"))
            self.executed += list_of(delta.get("executed_tools"))
        self.tool_calls.add(delta, whole=whole)
        for key, value in delta.items():
            if key not in READ and value is not None:
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
        if self.blocks is not None and self.blocks.sealed():
            thoughts = self.blocks.thoughts(self._part("thinking"))
        else:
            thoughts = [self.parts["thinking"]] if "thinking" in self.parts else []
        if self.sound:
            data = base64.b64encode(b"".join(self.sound)).decode()
            self.parts["audio"] = Part({"part_kind": "custom:audio", "data": data})
        ordered = [*thoughts, *(self.parts[kind] for kind in ORDER if kind in self.parts)]
        calls = self.tool_calls.settle(self.beside, whole=whole)
        if self.blocks is not None:
            note(self.response.fields, {BESIDE: self.beside or None, **self.blocks.others()})
        meta = self.response.fields.get(META)
        if meta and "text" in self.parts and (signature := signature_in(meta.get("extra_content"))) is not None:
            self.parts["text"].fields[SIGNATURE] = signature
        self.response.parts[:] = [*ordered, *self.files, *calls]
        for part in (*ordered, *self.files):
            part.done = whole
        self.response.closed = whole

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools."""
        return self.tool_calls.calls(self.beside)

    def citations(self) -> list[Fields]:
        """Return the sources of the text, as OpenAI's annotations or as gateways pass on Anthropic's."""
        if self.blocks is None or self.beside is None:
            return self.annotations
        return [*self.annotations, *objects(self.beside.get("citations")), *self.blocks.citations()]

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

    def _add_blocks(self, delta: Fields, *, whole: bool) -> None:
        """Add what gateways write: blocks, whose texts are thoughts, too, and fields beside the protocol."""
        blocks = self.blocks = self.blocks or Blocks()
        self.beside = with_more(self.beside or {}, delta.get(BESIDE))
        pieces = list(blocks_in(delta))
        self._add_thought(delta, pieces)
        for key, index, piece in pieces:
            if piece.get("type") == "image_url":
                self._add_image(piece)
            else:
                blocks.add(key, index, piece, whole=whole)

    def _add_thought(self, delta: Fields, pieces: Sequence[Piece] = ()) -> None:
        """Add a thought. It comes under one key or several at once: the first one with a text counts."""
        details = objects(delta.get("reasoning_details"))
        for detail in details:
            self._add_detail(detail)
        texts = {key: delta[key] for key in THOUGHTS if isinstance(delta.get(key), str)}
        texts["reasoning_details"] = "".join(_text_of(detail) for detail in details)
        for key, _, piece in pieces:
            texts[key] = texts.get(key, "") + text_of(piece)
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
        if content is None or isinstance(content, str):
            self._append("text", content)
            return
        pieces = objects(content)
        if not (isinstance(content, list) and sum("type" in p for p in pieces) == len(content)):
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
