"""Live text and stretches by a wire's DELTAS, the table of the events that extend an open part."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Shown, Stretch

Deltas = Mapping[str | None, tuple[Delta, ...]]


def shown(deltas: Deltas, kind_key: str, event: Any) -> Sequence[Shown]:
    """Return the text or thought that an event adds; empty if it is no delta. `kind_key`: as in the wire."""
    kind = event.get(kind_key) if isinstance(event, dict) else None
    for delta in deltas.get(kind, ()) if isinstance(kind, str) else ():
        holder: Any = event
        for name in delta.text[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        text = holder.get(delta.text[-1]) if isinstance(holder, dict) else None
        if isinstance(text, str) and (delta.tag is None or holder.get(delta.tag[0]) == delta.tag[1]):
            return () if delta.kind == "arguments" else [Shown(delta.kind, text)]
    return ()


def stretches(deltas: Deltas, kind_key: str) -> dict[str | None, Stretch]:
    """Return the stretches of deltas that consist of a type, a text, and an id if the wire has ids.

    The builder holds their parts in `open_text` or `open_thinking`, by this id, or else by the delta's `kind`.
    """
    return {kind: _stretch(kind_key, kind, delta) for kind, (delta,) in deltas.items()}


def _stretch(kind_key: str, kind: str | None, delta: Delta) -> Stretch:
    text_key, id_key, of_thinking = delta.text[0], delta.key or kind_key, delta.kind == "thinking"
    size = 2 if delta.key is None else 3

    def stretch(builder: Builder, events: list[Any], start: int) -> int:
        """Append consecutive plain deltas of a part; return the index after them."""
        try:
            identity = events[start][id_key]
            parts = builder.open_thinking if of_thinking else builder.open_text
            chunks = parts[identity if size == 3 else delta.kind].chunks
        except (KeyError, TypeError):  # the event's handler raises the error
            return start
        texts = []
        try:
            # Not of a slice: for a large record, a copy of the rest for each stretch would take quadratic time.
            for event in map(events.__getitem__, range(start, len(events))) if start else events:
                text = event[text_key]
                if event[kind_key] != kind or event[id_key] != identity or len(event) != size or type(text) is not str:
                    break
                texts.append(text)
        except (KeyError, TypeError):  # another kind of event
            pass
        if texts:
            chunks.append("".join(texts))  # one string in memory, not one for each delta
        return start + len(texts)

    return stretch
