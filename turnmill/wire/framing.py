"""Bytes -> events: how the wire protocols cut a stream into JSON objects.

A stream is Server-Sent Events (WHATWG HTML, "9.2.6 Interpreting an event stream") or JSON lines; its first line that
starts with an SSE field decides. Of an SSE stream a wire wants

    sse         an event per `data`; event names are ignored (vercel-ai)
    named-sse   {"event": name, "data": …} (agents-sdk)
    data-lines  an event per `data: ` line, whether or not a blank line follows (pi-proxy); like its client, ignores
                lines without the space, and stops at the first line that is not JSON
    sse-or-frames  as sse; a stream that begins with a zero byte has AWS's binary frames (bedrock)
    sse-or-array  as sse; a stream that is not SSE is a JSON array of events, or objects over any lines (gemini)

An event is a JSON object. On a boxed wire it may be any JSON value: {"event": null, "data": VALUE}. Outside of SSE, an
event may span several lines, the first "{" and the last "}", as APIs send whole answers. On sse-or-array such an object
may also follow SSE events: it reports an error.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import EVENT_BYTES
from turnmill.wire import deep_json
from turnmill.wire.aws_frames import Frames
from turnmill.wire.deep_json import parse_float
from turnmill.wire.envelope import loads
from turnmill.wire.json_objects import BETWEEN, Cutter
from turnmill.wire.nesting import text_too_deep
from turnmill.wire.registry import Framing, Wire, box

BOM: Final = b"\xef\xbb\xbf"
LINE_END: Final = re.compile(rb"\r\n|\r|\n")
SSE_LINE: Final = re.compile(rb"(?:data|event|id|retry)?:|(?:data|event|id|retry)\Z")
EXCERPT: Final = 1_000  # bytes of a refused oversized event that are kept


@dataclass(frozen=True, slots=True)
class Framed:
    """An event, or its error. `line`: where it starts, from 1; `raw`: its payload as received."""

    line: int
    event: dict[str, Any] | None
    error: InvalidRecord | None
    raw: bytes


class Decoder:
    """An incremental decoder: `feed` bytes as they come, `close` at the end of the stream. Holds at most one event.

    `done_marker`: data that ends a stream and is no event ("[DONE]"), unless events are `boxed`. An event of more than
    `max_event_bytes` is refused; the beginning of its bytes is kept.
    """

    def __init__(
        self,
        framing: Framing = "sse",
        done_marker: str | None = None,
        max_event_bytes: int = EVENT_BYTES,
        *,
        boxed: bool = False,
    ) -> None:
        self._framing = framing
        self._boxed = boxed
        self._done = done_marker.encode() if done_marker else None
        self._max = max_event_bytes
        self._sse = False
        self._line = 0  # lines seen
        self._tail: list[bytes] = []  # pieces of the last line, whose end has not come yet
        self._held = 0  # bytes in _tail and _data
        self._after_cr = False  # the last byte was CR, so a LF that comes next belongs to it
        self._data: list[bytes] = []  # data lines of the event being read
        self._data_line = 0  # the line where that event starts; 0 without data
        self._name = b""
        self._object = 0  # the line where an object of several lines starts (they are in _data); 0 outside
        self._oversized = False
        self._stopped = False  # data-lines: a line was not JSON, so nothing after it is read
        self._frames = Frames(max_event_bytes) if framing == "sse-or-frames" else None
        self._cutter = Cutter(max_event_bytes, EXCERPT) if framing == "sse-or-array" else None
        self._before: list[bytes] | None = []  # sse-or-array: chunks until it is clear which; then None

    def feed(self, chunk: bytes) -> list[Framed]:
        """Return the events that the chunk completes."""
        if self._cutter is not None:
            return self._feed_objects(self._cutter, chunk)
        if self._frames is not None and chunk:
            if self._line or chunk[0] == 0:
                return self._feed_frames(self._frames, chunk)
            self._frames = None
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        any_line_end = b"\r" in chunk and self._framing != "data-lines"  # pi-proxy's client splits at LF only
        lines = LINE_END.split(chunk) if any_line_end else chunk.split(b"\n")
        if len(lines) > 1:
            self._after_cr = any_line_end and chunk.endswith(b"\r")
            lines[0] = self._take_tail() + lines[0]
        framed: list[Framed] = []
        for line in lines[:-1]:
            self._read(line, framed)
        self._hold(self._tail, lines[-1])
        return framed

    def close(self) -> list[Framed]:
        """Return the last JSON line, if it has no line end. An SSE event without its blank line is dropped."""
        framed: list[Framed] = []
        last = self._take_tail()
        if last and (self._object or (not self._sse and not SSE_LINE.match(last.removeprefix(BOM)))):
            self._read(last, framed)
        if self._object:
            self._end_object(framed)
        return framed

    def _feed_objects(self, cutter: Cutter, chunk: bytes) -> list[Framed]:
        """Return the events that the chunk completes, on sse-or-array: the first character tells SSE from objects."""
        if self._before is not None:
            self._before.append(chunk)
            first = chunk.lstrip(BETWEEN.replace(b"[", b""))[:1]
            if not first:
                return []
            chunk, self._before = b"".join(self._before), None
            if first not in (b"[", b"{"):
                self._cutter = None
                return self.feed(chunk)
        framed: list[Framed] = []
        for item in cutter.feed(chunk):
            self._oversized = item.cut
            self._emit(item.raw, item.line, framed)
        return framed

    def _feed_frames(self, frames: Frames, chunk: bytes) -> list[Framed]:
        """Return the events of the frames that the chunk completes. Behind a wrong frame, nothing is read."""
        framed: list[Framed] = []
        self._line = 1
        try:
            for raw in () if self._stopped else frames.feed(chunk):
                self._emit(raw, self._line, framed)
        except InvalidRecord as error:
            self._stopped = True
            framed.append(Framed(self._line, None, error, chunk[:EXCERPT]))
        return framed

    def _hold(self, pieces: list[bytes], piece: bytes) -> None:
        """Keep a piece of an unfinished event, unless there is too much of it already."""
        if self._oversized or self._held + len(piece) > self._max:
            self._oversized = True
            piece = piece[: max(0, EXCERPT - self._held)]
        if piece:
            pieces.append(piece)
            self._held += len(piece)

    def _take_tail(self) -> bytes:
        line = b"".join(self._tail)
        self._tail.clear()
        self._held -= len(line)
        return line

    def _read(self, line: bytes, framed: list[Framed]) -> None:
        self._line += 1
        if self._line == 1:
            line = line.removeprefix(BOM)
        if self._reads_object(line, framed):
            return
        if not self._sse:
            if not SSE_LINE.match(line):
                if line.strip() or self._oversized:
                    self._emit(line, self._line, framed)
                return
            self._sse = True
        field, _, value = line.partition(b":")
        if field == b"data":
            if self._framing == "data-lines":
                if value.startswith(b" ") and value.strip() and not self._stopped:
                    self._emit(value.strip(), self._line, framed)
                    self._stopped = bool(framed) and framed[-1].error is not None
                return
            self._data_line = self._data_line or self._line
            self._hold(self._data, value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif not line:
            if self._data_line:
                self._emit(b"\n".join(self._data), self._data_line, framed)
            self._data.clear()
            self._data_line = self._held = 0
            self._name = b""
        elif not self._data_line:
            self._oversized = False  # the long line was a comment or another field, no part of an event

    def _reads_object(self, line: bytes, framed: list[Framed]) -> bool:
        """Return True for a line of an object of several lines. A "{" at a line's start ends an unfinished object."""
        if self._object and line[:1] == b"{":
            self._end_object(framed)
        elif self._object:
            self._hold(self._data, line)
            if line[:1] == b"}":
                self._end_object(framed)
            return True
        begins = line[:1] == b"{" and not self._data_line
        if not begins or (self._framing != "sse-or-array" if self._sse else line.rstrip() != b"{"):
            return False
        self._object = self._line
        self._hold(self._data, line)
        if self._sse and line.rstrip() != b"{":
            self._end_object(framed)
        return True

    def _end_object(self, framed: list[Framed]) -> None:
        self._emit(b"\n".join(self._data), self._object, framed)
        self._data.clear()
        self._object = self._held = 0

    def _emit(self, raw: bytes, line: int, framed: list[Framed]) -> None:
        if self._oversized or len(raw) > self._max:
            self._oversized = False
            detail = f"line {line}: an event may have {self._max:,} bytes"
            framed.append(Framed(line, None, InvalidRecord(Reason.TOO_LARGE, detail), raw[:EXCERPT]))
            return
        if self._done is not None and raw.strip() == self._done:
            if self._boxed:
                framed.append(Framed(line, box(self._done.decode()), None, raw))
            return
        try:
            event = _parse(raw)
            if self._sse and self._framing == "named-sse":
                event = {"event": self._name.decode("utf-8", "replace") or "message", "data": event}
            elif self._boxed and not isinstance(event, dict):
                event = box(event)
            elif not isinstance(event, dict):
                raise InvalidRecord(Reason.INVALID_EVENT, f"an event is a JSON object, not {type(event).__name__}")
        except InvalidRecord as error:
            framed.append(Framed(line, None, InvalidRecord(error.reason, f"line {line}: {error.detail}"), raw))
        else:
            framed.append(Framed(line, event, None, raw))


def decoder_for(wire: Wire, max_event_bytes: int = EVENT_BYTES) -> Decoder:
    """Return a decoder of that wire's streams."""
    return Decoder(wire.framing, wire.done_marker, max_event_bytes, boxed=wire.boxed)


def decode(stream: bytes, wire: Wire) -> list[Framed]:
    """Return the events of a whole stream, or the error of each that can't be read."""
    decoder = decoder_for(wire)
    return decoder.feed(stream) + decoder.close()


def _parse(raw: bytes) -> Any:
    if not raw.strip():
        raise InvalidRecord(Reason.UNDECODABLE, "an event without data")
    try:
        return loads(raw)
    except InvalidRecord:
        # Text streams are decoded as browsers do it: bytes that are not UTF-8 become U+FFFD.
        text = raw.decode("utf-8", "replace")
        if (number := parse_float(text)) is not None and not text_too_deep(text):
            try:
                return loads(deep_json.dumps(deep_json.loads(text, parse_float=number)).encode())
            except ValueError:
                raise InvalidRecord(Reason.UNDECODABLE, f"not JSON: {text[:80]!r}") from None
        if text.encode() == raw:
            raise
        return loads(text.encode())
