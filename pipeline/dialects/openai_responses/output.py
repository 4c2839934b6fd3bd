"""The output of a call: its items while they grow, and the final ones.

The terminal event's output replaces finished items of its types, these replace the texts of finished parts, and these
the deltas. An item is found by `output_index`, or without it by its id, or else is the newest.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_responses.items import parts_of
from pipeline.dialects.openai_responses.keys import FAKE_ID
from pipeline.dialects.wire_values import number_or_none
from pipeline.turns.text import join
from topics.json_text import Fields, object_of

# Kinds of pieces -> the item that has such pieces, and the part that contains it while it grows.
PIECES: Final = {
    "output_text": ("message", "text"),
    "refusal": ("message", "text"),
    "summary": ("reasoning", "thinking"),
    "reasoning": ("reasoning", "thinking"),
    "arguments": ("function_call", "tool-call"),
    "input": ("custom_tool_call", "tool-call"),
    "code": ("code_interpreter_call", "builtin-tool-call"),
    "command": ("shell_call", "tool-call"),
    "diff": ("apply_patch_call", "tool-call"),
}


@dataclass(slots=True, eq=False)
class Item:
    """One item. `hollow`: as it was added. `grown`: its pieces by kind and index. `finished`: their whole texts."""

    index: int | None
    hollow: Fields
    done: Fields | None = None
    grown: dict[tuple[str, int], Part] = field(default_factory=dict)
    finished: dict[tuple[str, int], str] = field(default_factory=dict)

    def whole(self) -> Fields:
        """Return the item so far."""
        if self.done is not None:
            return self.done
        item: Fields = dict(self.hollow)
        lists: dict[str, list[Fields]] = {"content": [], "summary": []}
        commands: list[str] = []
        for (kind, _), text in sorted(self.texts().items(), key=lambda pair: pair[0][1]):
            if kind == "summary":
                lists["summary"].append({"type": "summary_text", "text": text})
            elif kind in ("output_text", "refusal", "reasoning"):
                name = "reasoning_text" if kind == "reasoning" else kind
                lists["content"].append({"type": name, "refusal" if kind == "refusal" else "text": text})
            elif kind == "command":
                commands.append(text)
                item["action"] = {**object_of(item.get("action")), "commands": commands}
            elif kind == "diff":
                item["operation"] = {**object_of(item.get("operation")), "diff": text}
            else:
                item[kind] = text
        return item | {key: items for key, items in lists.items() if items}

    def texts(self) -> dict[tuple[str, int], str]:
        """Return the pieces' texts."""
        return {key: join(part.chunks) for key, part in self.grown.items()} | self.finished


@dataclass(slots=True, eq=False)
class Output:
    """The items of a call in the order in which they began.

    `final`: the terminal event's output; once it is settled, all whole items. `read`: the parts of one.
    """

    response: Message
    items: list[Item] = field(default_factory=list)
    final: list[Fields] = field(default_factory=list)
    settled: bool = False
    read: Callable[[Fields], list[Fields]] = parts_of

    def add(self, event: Fields) -> None:
        """Handle `output_item.added`; repeating it for the same item changes nothing."""
        item = event.get("item")
        index = number_or_none(event.get("output_index"))
        if isinstance(item, dict):
            known = self._by_id(item.get("id"))
            if known is None or known.index != index:
                self.items.append(Item(index, item))

    def finish(self, event: Fields) -> None:
        """Handle `output_item.done`."""
        item = event.get("item")
        if not isinstance(item, dict):
            return
        index = number_or_none(event.get("output_index"))
        known = self._by_id(item.get("id")) or self._at(index, event)
        if known is None or known.done is not None or known.hollow.get("type") != item.get("type"):
            same = known is not None and known.done is not None and known.done.get("id") == item.get("id")
            if known is None or not same:
                known = Item(index, item)
                self.items.append(known)
        known.done = item

    def grow(self, event: Fields, kind: str, index: int, text: str, at: int) -> None:
        """Add a delta to a piece of an item."""
        key = (kind, index)
        item = self._item(event, kind)
        part = item.grown.get(key)
        if part is None:
            part = item.grown[key] = _growing(item, kind)
            self.response.parts.append(part)
            if self.response.first_part_at is None:
                self.response.first_part_at = at
        part.chunks.append(text)

    def growing(self, event: Fields, kind: str, index: int) -> Part | None:
        """Return the part that a delta for a piece of an item extends; None if it begins the piece."""
        item = self._found(event)
        return item.grown.get((kind, index)) if item is not None and _holds(item, kind) else None

    def tell(self, event: Fields, kind: str, index: int, text: str) -> None:
        """Set the whole text of a piece."""
        self._item(event, kind).finished[kind, index] = text

    def settle(self, *, whole: bool) -> None:
        """Settle the call: convert its items to parts."""
        if self.settled:
            return
        self.settled = True
        self.final = self._final() if self.final else [item.whole() for item in self._ordered()]
        parts = [Part(fields, done=whole) for item in self.final for fields in self.read(item)]
        self.response.parts[:] = parts
        self.response.closed = whole

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools, once it is settled."""
        return [part for part in self.response.parts if part.fields["part_kind"] == "tool-call"]

    def _final(self) -> list[Fields]:
        """Return the final items, with those that were finished before and of whose type the final output has none.

        Gateways list only what they hold back themselves, such as a picture.
        """
        kinds, items = {item.get("type") for item in self.final}, list(self.final)
        for at, item in enumerate(self._ordered()):
            if item.done is not None and item.done.get("type") not in kinds:
                items.insert(at, item.done)
        return items

    def _ordered(self) -> list[Item]:
        if any(item.index is None for item in self.items):
            return self.items
        return sorted(self.items, key=lambda item: item.index or 0)

    def _by_id(self, item_id: Any) -> Item | None:
        if item_id and item_id != FAKE_ID:
            for item in reversed(self.items):
                if item.hollow.get("id") == item_id:
                    return item
        return None

    def _at(self, index: int | None, event: Fields) -> Item | None:
        if index is not None:
            for item in reversed(self.items):
                if item.index == index:
                    return item
            return None
        return self._by_id(event.get("item_id")) or (self.items[-1] if self.items else None)

    def _found(self, event: Fields) -> Item | None:
        return self._by_id(event.get("item_id")) or self._at(number_or_none(event.get("output_index")), event)

    def _item(self, event: Fields, kind: str) -> Item:
        """Return the item that a piece belongs to; if it was never added, it begins here."""
        item = self._found(event)
        if item is None or not _holds(item, kind):
            item = Item(
                number_or_none(event.get("output_index")), {"type": PIECES[kind][0], "id": event.get("item_id")}
            )
            self.items.append(item)
        return item


def _holds(item: Item, kind: str) -> bool:
    """Return True if an item has such pieces: arguments belong to several types of calls."""
    name = str(item.hollow.get("type"))
    return name == PIECES[kind][0] or (kind in ("arguments", "input") and name.endswith("_call"))


def _growing(item: Item, kind: str) -> Part:
    part_kind = PIECES[kind][1]
    if part_kind in ("text", "thinking"):
        return Part({"part_kind": part_kind, "content": ""})
    call_id = str(item.hollow.get("call_id") or item.hollow.get("id") or "")
    return Part(
        {"part_kind": part_kind, "tool_name": str(item.hollow.get("name") or ""), "tool_call_id": call_id, "args": None}
    )
