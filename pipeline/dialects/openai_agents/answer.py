"""A call of a model: the parts of its response, from events of the Responses API.

Each of these replaces the next: the output of the terminal event, a finished item, the whole of a text or of arguments,
deltas, which are mainly for live readers. Items are distinguished by their `output_index`; servers that write none, or
0 for all, open one item after the other.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_agents.items import REFUSAL, is_beside, parts
from pipeline.dialects.openai_responses.keys import FAKE_ID
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.arguments import arguments
from topics.json_text import Fields, objects

TEXT: Final[Fields] = {"part_kind": "text"}
THINKING: Final[Fields] = {"part_kind": "thinking"}
# Stretches of text: event type without its ending -> (kind of stretch, its part, the key of its number).
STRETCHES: Final[dict[str, tuple[str, Fields, str]]] = {
    "response.output_text": ("text", TEXT, "content_index"),
    "response.refusal": ("text", {**TEXT, REFUSAL: True}, "content_index"),
    "response.reasoning_summary_text": ("summary", THINKING, "summary_index"),
    "response.reasoning_text": ("content", THINKING, "content_index"),
    "response.function_call_arguments": ("args", {}, "args_index"),
    "response.custom_tool_call_input": ("args", {}, "args_index"),
    "response.mcp_call_arguments": ("args", {}, "args_index"),
}
WHOLE: Final = ("text", "refusal", "arguments", "input")  # where a `.done` event has the whole stretch
TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
FAILED: Final = frozenset({"response.failed", "error"})
OPENING: Final = frozenset({"response.queued", "response.in_progress"})
ITEMS: Final = frozenset({"response.output_item.added", "response.output_item.done"})


def is_read(kind: str) -> bool:
    """Return True if the kind of an event between the first and the terminal one is known here."""
    return kind in OPENING or kind in ITEMS or kind.rpartition(".")[0] in STRETCHES


@dataclass(slots=True, eq=False)
class Slot:
    """One item of the output. `live`: its stretches so far, by kind and number; `parts`: those of a finished item."""

    index: int
    item: Fields
    live: dict[tuple[str, int], Part] = field(default_factory=dict)
    parts: list[Part] | None = None

    def shown(self) -> list[Part]:
        """Return the item's parts so far: a reasoning's content only without a summary."""
        if self.parts is not None:
            return self.parts
        kinds = {kind for kind, _ in self.live}
        return [part for (kind, _), part in sorted(self.live.items()) if kind != "content" or "summary" not in kinds]


@dataclass(slots=True, eq=False)
class ResponseAnswer:
    """The current call. `response` is open until a terminal event, or a later event, closes it."""

    response: Message
    response_id: str | None = None
    slots: list[Slot] = field(default_factory=list)
    beside: list[Fields] = field(default_factory=list)  # items that are system messages
    items: list[Fields] = field(default_factory=list)  # all items, once it is settled

    def take(self, event: Fields, at: int) -> None:
        """Handle an event between the first and the terminal one; an unknown kind is ignored."""
        kind = event["type"]
        if kind in ITEMS:
            if isinstance(event.get("item"), dict):
                (self._open if kind == "response.output_item.added" else self._done)(event, event["item"])
        else:
            stretch, _, ending = kind.rpartition(".")
            if stretch not in STRETCHES:
                return
            self._extend(event, stretch, ending)
        if self.response.first_part_at is None and self.response.parts:
            self.response.first_part_at = at

    def growing(self, event: Fields) -> Part | None:
        """Return the part that a delta extends; None if it begins one, or is ignored."""
        stretch, _, ending = event["type"].rpartition(".")
        slot = self._of(event) if ending == "delta" and stretch in STRETCHES else None
        if slot is None or slot.parts is not None or self.response.first_part_at is None:
            return None
        kind, _, key = STRETCHES[stretch]
        number = event.get(key)
        return slot.live.get((kind, number if isinstance(number, int) else 0))

    def settle(self, output: Any = None) -> None:
        """Settle the call: its parts are those of the output, or of finished items, or built from deltas."""
        if whole := objects(output):
            self.response.parts = [part for item in whole for part in _finished(item)]
            self.items = whole
        else:
            for slot in self.slots:
                if slot.parts is None:
                    self._settle_live(slot)
            self.items = [slot.item for slot in sorted(self.slots, key=lambda s: s.index) if slot.parts is not None]
            self._place()
        self.beside = [item for item in self.items if isinstance(item.get("type"), str) and is_beside(item)]
        self.response.closed = True

    def forget_live(self) -> None:
        """Drop live texts after events were lost: their continuation would lack a piece."""
        for slot in self.slots:
            slot.live.clear()
        self._place()

    def give_up(self) -> None:
        """Give up a call that broke off and was made again: its output is not in the conversation."""
        for part in self.response.parts:
            part.done = False

    def _open(self, event: Fields, item: Fields) -> Slot:
        index = event.get("output_index")
        known = self._by_id(item)
        if known is not None and known.parts is None and index in (None, known.index):
            known.item = item
            return known
        slot = Slot(index if isinstance(index, int) else len(self.slots), item)
        self.slots.append(slot)
        if item.get("type") in ("function_call", "custom_tool_call", "mcp_call") and isinstance(item.get("name"), str):
            slot.live[("args", 0)] = Part(_call(item))
            self._place()
        return slot

    def _done(self, event: Fields, item: Fields) -> None:
        made = _finished(item)
        slot = self._by_id(item) or self._of(event)
        if slot is None or (slot.parts is not None and slot.item.get("id") != item.get("id")):
            slot = self._open(event, item)
        slot.item, slot.parts = item, made
        self._place()

    def _extend(self, event: Fields, stretch: str, ending: str) -> None:
        kind, fields, key = STRETCHES[stretch]
        delta = event["delta"] + "" if ending == "delta" else None
        whole = next((event[name] for name in WHOLE if isinstance(event.get(name), str)), None)
        if delta is None and (ending != "done" or whole is None):
            return
        slot = self._of(event) or self._open(event, {"type": None, "id": event.get("item_id")})
        if slot.parts is not None:
            return
        number = event.get(key)
        position = (kind, number if isinstance(number, int) else 0)
        part = slot.live.get(position)
        if part is None:
            part = slot.live[position] = Part({**fields, "content": ""} if fields else _call(slot.item))
            self._place()
        if delta is None:
            part.chunks = [whole or ""]
        else:
            part.chunks.append(delta)

    def _settle_live(self, slot: Slot) -> None:
        """Build an unfinished item from its deltas; a call without a name is dropped."""
        for part in slot.live.values():
            if "args" not in part.fields:
                part.done = True
            elif part.fields["tool_name"] and part.fields["tool_call_id"]:
                text, part.chunks = "".join(part.chunks), []
                is_text = slot.item.get("type") == "custom_tool_call"
                part.fields["args"] = {"input": text} if is_text else arguments(text)
                part.done = True

    def _by_id(self, item: Fields) -> Slot | None:
        """Return the newest slot of this item's id, if the id is the item's."""
        identity = item.get("id")
        if identity in (None, "", FAKE_ID):
            return None
        return next((slot for slot in reversed(self.slots) if slot.item.get("id") == identity), None)

    def _of(self, event: Fields) -> Slot | None:
        """Return the slot of an event: by its index, then by its item's id, else the one that was opened last."""
        index, identity = event.get("output_index"), event.get("item_id")
        if isinstance(index, int):
            at_index = [slot for slot in self.slots if slot.index == index]
            if len(at_index) > 1 and identity is not None:
                return next((s for s in reversed(at_index) if s.item.get("id") == identity), at_index[-1])
            return at_index[-1] if at_index else None
        named = self._by_id({"id": identity})
        is_last = named is None and identity in (None, FAKE_ID) and self.slots
        return self.slots[-1] if is_last else named

    def _place(self) -> None:
        self.response.parts = [p for slot in sorted(self.slots, key=lambda slot: slot.index) for p in slot.shown()]


def _finished(item: Fields) -> list[Part]:
    """Return the parts of a whole item; a call with truncated arguments is dropped."""
    if not isinstance(item.get("type"), str):
        raise TypeError("an item has a type")
    cut_off = item["type"] == "function_call" and item.get("status") == "incomplete"
    return [Part(fields, done=not cut_off) for fields in parts(item)]


def _call(item: Fields) -> Fields:
    kind = "builtin-tool-call" if item.get("type") == "mcp_call" else "tool-call"
    name, call_id = text_or_empty(item.get("name")), text_or_empty(item.get("call_id") or item.get("id"))
    return {"part_kind": kind, "tool_name": name, "tool_call_id": call_id, "args": None}


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of a run.

    `answer`: the current call. `is_over`: the newest call had its terminal event, and nothing followed. `ended`: the
    ids of those that had it. `is_raw`: the model's own events are in the stream. `agent`: the current agent; `moved`:
    the target of a hand-off.
    """

    answer: ResponseAnswer | None = None
    last_id: str | None = None
    is_over: bool = False
    is_raw: bool = False
    agent: str = ""
    moved: str | None = None
    ended: set[str] = field(default_factory=set)
