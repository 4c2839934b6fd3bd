"""Recognition of a stream's wire by its first events.

Each wire's decoder reads the stream, and each wire says of an event whether it is the wire's (`Dialect.knows`). The
stream is of the wire that knows most of its events, at least half of them, and more than any other wire does. This wire
is returned as soon as there is one; so an upload waits for as few events as possible. Any other stream is refused, by
its name if that is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pipeline.assembly.dialect import Dialect
from pipeline.dialects import DIALECTS
from turnmill.errors import CallerError
from turnmill.wire.framing import Decoder, Framed, decoder_for
from turnmill.wire.registry import Wire

AUTO: Final = "auto"  # in the place of a dialect's name: recognize it
MAX_LINES: Final = 200  # after which recognition gives up: an SSE event is two or three lines
MAX_BYTES: Final = 4_000_000
KNOWN_EVENTS: Final = 2  # events that a wire must know before the stream ends


class UnknownWire(CallerError):
    """The first events are of no wire, or of more than one."""

    def __init__(self, could_be: tuple[str, ...], foreign: str | None = None) -> None:
        names = ", ".join(could_be or sorted(DIALECTS))
        detail = f"it could be {names}" if could_be else f"no wire knows its first events; there are {names}"
        told = f"it is {foreign}, which no dialect reads"
        super().__init__(told if foreign else f"the stream does not tell its dialect: {detail}")
        self.could_be = could_be
        self.hint = "" if foreign else "; name it with --dialect"  # for callers on the command line


@dataclass(slots=True, eq=False)
class _Reader:
    """The number of events that a wire reads in a stream, and of those that it knows."""

    dialect: Dialect
    decoder: Decoder
    skipped: int
    seen: int = 0
    known: int = 0

    def take(self, framed: list[Framed]) -> None:
        for item in framed:
            if self.skipped:
                self.skipped -= 1
                continue
            self.seen += 1
            self.known += item.event is not None and self.dialect.knows(item.event)


class Recognition:
    """Recognizes the wire of a stream, chunk by chunk. `skipped`: how many events at the beginning are ignored."""

    def __init__(self, *, skipped: int = 0) -> None:
        self._readers = [_Reader(dialect, decoder_for(dialect.wire), skipped) for dialect in DIALECTS.values()]
        self._any = decoder_for(Wire(untyped=True, boxed=True))
        self._foreign: str | None = None
        self._tail: list[bytes] = []  # of an incomplete line
        self._lines = 0
        self._bytes = self._held = 0  # of lines, and of the tail

    def feed(self, chunk: bytes) -> Dialect | None:
        """Return the wire, once a line shows it, wherever chunks begin and end. Raises UnknownWire."""
        self._tail.append(chunk)
        self._held += len(chunk)
        if self._held > MAX_BYTES:
            self._give_up()
        if b"\n" not in chunk and b"\r" not in chunk:
            return None
        lines = b"".join(self._tail).splitlines(keepends=True)
        self._tail = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        self._held = sum(map(len, self._tail))
        for line in lines:
            self._take(line)
            # Some wires read an SSE event at its data line, others at the blank line after it: then all have read it.
            ends = not line.strip() or line.lstrip()[:1] in (b"{", b"[")
            if ends and (winner := self._winner(KNOWN_EVENTS)):
                return winner
            self._lines += 1
            self._bytes += len(line)
            if self._lines > MAX_LINES or self._bytes > MAX_BYTES:
                self._give_up()
        return None

    def close(self) -> Dialect | None:
        """Return the wire at the end of the stream; None if it had no event. Raises UnknownWire."""
        self._take(b"".join(self._tail), last=True)
        self._tail = []
        if any(reader.seen for reader in self._readers):
            return self._winner(1) or self._give_up()
        return None

    def _take(self, line: bytes, *, last: bool = False) -> None:
        for reader in self._readers:
            reader.take(reader.decoder.feed(line) + (reader.decoder.close() if last else []))
        for item in self._any.feed(line) + (self._any.close() if last else []):
            self._foreign = self._foreign or _foreign_name(item.event)

    def _winner(self, least: int) -> Dialect | None:
        first, second = sorted(self._readers, key=lambda reader: reader.known, reverse=True)[:2]
        return first.dialect if first.known > second.known and first.known >= max(first.seen / 2, least) else None

    def _give_up(self) -> NoReturn:
        most = max(reader.known for reader in self._readers)
        first = [reader for reader in self._readers if most and reader.known == most]
        raise UnknownWire(tuple(sorted(reader.dialect.name for reader in first)), self._foreign)


def recognise(stream: bytes, request: Any = None) -> Dialect | None:
    """Return the wire of a whole stream; None if it has no event. Raises UnknownWire.

    `request`: the body of the request to which it is the answer; among wires that the stream leaves open, it decides.
    """
    recognition = Recognition()
    try:
        return recognition.feed(stream) or recognition.close()
    except UnknownWire as error:
        asked = [name for name in error.could_be if DIALECTS[name].history(request).messages]
        if len(asked) != 1:
            raise
        return DIALECTS[asked[0]]


def is_foreign(dialect: Dialect, events: Iterable[dict[str, Any]]) -> bool:
    """Return True if a wire knows none of these events; those that any stream may carry (`data-…`) tell nothing."""
    kinds = [(event, event.get(dialect.wire.kind)) for event in events]
    telling = [event for event, kind in kinds if not (isinstance(kind, str) and kind.startswith("data-"))]
    return bool(telling) and not any(map(dialect.knows, telling))


def looks_like(stream: bytes, named: Dialect) -> str | None:
    """Return the wire of the beginning of a stream, if it is another one than its producer has named."""
    try:
        other = recognise(stream)
    except UnknownWire:
        return None
    return None if other is None or other is named else other.name


def _foreign_name(event: Any) -> str | None:
    """Return the name of a stream that no dialect reads, by what an event has; None if it is not known."""
    match event:
        case {"type": str(kind)} if kind.startswith("agent.session."):
            return "OpenAI's agent sessions"
        case {"type": str(kind), "processed_at": _} if kind.startswith(("user.", "agent.", "session.", "span.")):
            return "Anthropic's managed agents"
        case {"event": str(), "task_id": _} if "workflow_run_id" in event or "message_id" in event:
            return "Dify"
    return None
