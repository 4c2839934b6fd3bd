"""The expected bytes of a run's next record, if it only continues a text.

Nine of ten records do, and differ from the one before in a few numbers and in their text. The compiled core recognises
them by the bytes that all of them have in common, which an `ExpectedRecord` holds. The native kernel `delta_reader`
compares these, and reads the values between them, without a dictionary for each event, or a string for each of its
names. Every other record is parsed as a whole, and so is every record if the core is interpreted.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from topics.json_text import Fields

# The path of an event's text: keys of objects and indexes of arrays, from the outside inwards.
Path = tuple[str | int, ...]
# The bytes between the numbers and the first text, between two texts, after the last text, and at the record's end; and
# the run of the record.
Entry = tuple[bytes, bytes, bytes, bytes, Any]
# The values of a record that is as expected: its run, seq, the times of its first and its last event (epoch ms), the
# number of events, and their joined texts.
Deltas = tuple[Any, int, int, int, int, str]

# (expected records, by their heads; a record's value) -> its values; None if it is unexpected, or malformed.
read_deltas: Callable[[dict[bytes, Entry], bytes], Deltas | None] | None
try:
    from pipeline.assembly.delta_reader import read_deltas
except ImportError:  # the core is interpreted
    read_deltas = None

MAX_BYTES: Final = 2048  # of the expected bytes of a run, which are not counted in its weight
MARK: Final = "\u241e the text of a delta \u241e"


class ExpectedRecord:
    """The expected form of a run's record that only continues a text. `head`: its bytes before `,"seq":`."""

    __slots__ = ("_event", "_holder", "_key", "_known", "head")

    def __init__(self, head: bytes, middle: bytes, tail: bytes, event: Fields, path: Path) -> None:
        """`middle`: bytes between the numbers and the events; `tail`: those after them. This object takes over `event`.

        Raises ValueError if the event itself contains MARK.
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
        """Return the entry for `read_deltas`, to be stored under the head of this run's records."""
        return (*self._known, run)

    def event(self, text: str) -> Fields:
        """Return the one event that represents all events of a record."""
        self._holder[self._key] = text
        return self._event

    def forget_text(self) -> None:
        """Release the text: its memory is counted where it was appended."""
        self._holder[self._key] = ""


def expected_after(envelope: Fields, paths: Iterable[Path]) -> ExpectedRecord | None:
    """Return the form of the next record if it continues this one, without the `run` object, which comes once.

    `paths`: where its last event may have its text.

    Return None if it has no text, or several; if publishers don't use this order of the envelope's keys; or if the form
    would take much memory.
    """
    event = envelope["events"][-1]
    present = [path for path in paths if _at(event, path).__class__ is str]
    names = tuple(envelope)
    if names not in LAYOUTS:
        if len(LAYOUTS) == MAX_LAYOUTS:
            LAYOUTS.clear()
        LAYOUTS[names] = layout(names)
    order = LAYOUTS[names]
    if order is None or len(present) != 1:
        return None
    try:
        head, middle = _members(envelope, order.head, b"{"), _members(envelope, order.middle, b",")
        tail, data = _members(envelope, order.tail, b",") + b"}", orjson.dumps(event)
        if len(head) + len(middle) + len(tail) + len(data) > MAX_BYTES:
            return None
        return ExpectedRecord(head, middle, tail, orjson.loads(data), present[0])
    except (TypeError, ValueError):  # a value that orjson can't encode
        return None


class Layout(NamedTuple):
    """The keys of an envelope before its numbers, between them and the events, and behind these."""

    head: tuple[str, ...]
    middle: tuple[str, ...]
    tail: tuple[str, ...]


def layout(names: Iterable[str]) -> Layout | None:
    """Return the positions of an envelope's keys; None if the kernel could not find its numbers."""
    others = [name for name in names if name != "run"]
    numbers, events = others.index("seq"), others.index("events")
    head, rest, tail = others[:numbers], others[numbers + 1 : events], others[events + 1 :]
    if not head or rest[:1] != ["ts"] or "dt" in head or "dt" in rest[2:] or "dt" in tail[1:]:
        return None
    middle = [name for name in rest[1:] if name != "dt"]
    return Layout(tuple(head), tuple(middle), tuple(name for name in tail if name != "dt"))


LAYOUTS: Final[dict[tuple[str, ...], Layout | None]] = {}  # by the order of keys, of those seen
MAX_LAYOUTS: Final = 100


def _at(event: Any, path: Path) -> Any:
    for key in path:
        try:
            event = event[key]
        except (IndexError, KeyError, TypeError):
            return None
    return event


def _members(envelope: Fields, names: Sequence[str], opening: bytes) -> bytes:
    """Return these members of an object as JSON, after `opening`; b"" if there are none."""
    return opening + orjson.dumps({name: envelope[name] for name in names})[1:-1] if names else b""
