"""The expected bytes of a run's next record, where the run goes on with its text.

Nine of ten records do, and differ from the one before in a few numbers and in their text. The compiled core knows them
by their bytes: an `ExpectedRecord` holds those that all of them have in common, and the native kernel `delta_reader`
compares these, and reads what stands between them: neither a dictionary for each event nor a string for each of its
names is made. Every other record is parsed as a whole, and so are all where the core is interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from topics.json_text import Fields

# Where an event holds its text: keys of objects and indexes of arrays, from the outside inwards.
Path = tuple[str | int, ...]
# What stands between the numbers and the first text, between two texts, behind the last one, at the record's end; and
# whose record it is.
Entry = tuple[bytes, bytes, bytes, bytes, Any]
# What a record says that is as expected: whose it is, seq, the times of its first and its last event (epoch ms), how
# many events there are, and their texts in one.
Said = tuple[Any, int, int, int, int, str]

# (what is expected, by the heads of records; a record's value) -> None where it is anything else, or malformed.
read_deltas: Callable[[dict[bytes, Entry], bytes], Said | None] | None
try:
    from pipeline.assembly.delta_reader import read_deltas
except ImportError:  # the core is interpreted
    read_deltas = None

MOST_BYTES: Final = 2048  # of a run's own in what it expects, which is not counted in what it weighs
MARK: Final = "\u241e the text of a delta \u241e"


class ExpectedRecord:
    """The expected form of a run's record that only continues a text. `head`: its bytes before `,"seq":`."""

    __slots__ = ("_event", "_holder", "_key", "_known", "head")

    def __init__(self, head: bytes, middle: bytes, tail: bytes, event: Fields, path: Path) -> None:
        """`middle` stands between the numbers and the events, `tail` behind them. `event` becomes this object's own.

        Raises ValueError where the event itself holds MARK.
        """
        holder: Any = event
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = MARK
        before, behind = orjson.dumps(event).split(MARK.encode())
        self.head = head
        self._known = (middle + b',"events":[' + before, behind + b"," + before, behind + b"]", tail)
        self._event = event
        self._holder = holder
        self._key = path[-1]

    def entry(self, run: Any) -> Entry:
        """Return the entry that `read_deltas` takes under the head of this run's records."""
        return (*self._known, run)

    def event(self, text: str) -> Fields:
        """Return the one event that stands for all events of a record."""
        self._holder[self._key] = text
        return self._event

    def forget_text(self) -> None:
        """Let go of the text: it is counted where it was appended."""
        self._holder[self._key] = ""


def expected_after(envelope: Fields, paths: Iterable[Path]) -> ExpectedRecord | None:
    """Return the form of the next record if it goes on as this one ends, without what comes once in a run.

    `paths`: where its last event may have its text.

    None where it has none, or several; where the envelope's keys come in an order that publishers do not use; where it
    would take much memory.
    """
    event = envelope["events"][-1]
    found = [path for path in paths if _at(event, path).__class__ is str]
    names = tuple(envelope)
    if names not in LAYOUTS:
        if len(LAYOUTS) == MOST_LAYOUTS:
            LAYOUTS.clear()
        LAYOUTS[names] = layout(names)
    order = LAYOUTS[names]
    if order is None or len(found) != 1:
        return None
    try:
        head, middle = _members(envelope, order.head, b"{"), _members(envelope, order.middle, b",")
        tail, data = _members(envelope, order.tail, b",") + b"}", orjson.dumps(event)
        if len(head) + len(middle) + len(tail) + len(data) > MOST_BYTES:
            return None
        return ExpectedRecord(head, middle, tail, orjson.loads(data), found[0])
    except (TypeError, ValueError):  # what orjson does not write
        return None


class Layout(NamedTuple):
    """The keys of an envelope before its numbers, between them and the events, and behind these."""

    head: tuple[str, ...]
    middle: tuple[str, ...]
    tail: tuple[str, ...]


def layout(names: Iterable[str]) -> Layout | None:
    """Return the positions of an envelope's keys; None where the kernel would not find its numbers."""
    others = [name for name in names if name != "run"]
    numbers, events = others.index("seq"), others.index("events")
    head, rest, tail = others[:numbers], others[numbers + 1 : events], others[events + 1 :]
    if not head or rest[:1] != ["ts"] or "dt" in head or "dt" in rest[2:] or "dt" in tail[1:]:
        return None
    middle = [name for name in rest[1:] if name != "dt"]
    return Layout(tuple(head), tuple(middle), tuple(name for name in tail if name != "dt"))


LAYOUTS: Final[dict[tuple[str, ...], Layout | None]] = {}  # of orders that have come
MOST_LAYOUTS: Final = 100


def _at(event: Any, path: Path) -> Any:
    for key in path:
        try:
            event = event[key]
        except (IndexError, KeyError, TypeError):
            return None
    return event


def _members(envelope: Fields, names: Sequence[str], opening: bytes) -> bytes:
    """Members of an object as they are written, behind `opening`; b"" without any."""
    return opening + orjson.dumps({name: envelope[name] for name in names})[1:-1] if names else b""
