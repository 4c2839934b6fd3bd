"""Joins fragments of tool calls: which ones belong together differs from server to server.

Fragments of a call have its `index`. Without one, a new id begins a new call. Id and name come once, or are repeated in
each fragment; arguments are appended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics import json_text
from topics.json_text import Fields

FUNCTION_CALL: Final = "function_call"  # the single call of the API before a message had several
ID: Final = "tool_call_id"
CUSTOM: Final = "meta:custom"  # of a call whose tool takes a text


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
