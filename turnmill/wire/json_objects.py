"""Find the JSON objects in a stream of bytes, in order, whatever is between them.

This reads a JSON array while it streams (`[{…}, {…}]`), and objects that are written over several lines.
"""

import re
from typing import Final, NamedTuple

BETWEEN: Final = b" \t\r\n,[]\xef\xbb\xbf"  # a byte order mark, too
STRUCTURE: Final = re.compile(rb'["{}\\]')
IN_TEXT: Final = re.compile(rb'["\\]')


class JsonPiece(NamedTuple):
    """An object, or bytes between objects. `line`: where it starts, from 1. `cut`: `raw` is only its beginning."""

    line: int
    raw: bytes
    cut: bool


class Cutter:
    """An incremental parser. It holds at most one object of at most `most` bytes; of a longer object, `kept` bytes."""

    __slots__ = ("_cut", "_depth", "_escaped", "_held", "_kept", "_line", "_most", "_pieces", "_started", "_text")

    def __init__(self, most: int, kept: int) -> None:
        self._most, self._kept = most, kept
        self._pieces: list[bytes] = []
        self._held = self._depth = 0
        self._line = self._started = 1
        self._text = self._escaped = self._cut = False

    def feed(self, chunk: bytes) -> list[JsonPiece]:
        """Return the objects that the chunk completes."""
        pieces: list[JsonPiece] = []
        start = at = 0
        while at < len(chunk):
            if not self._depth:
                start = at = self._begin(chunk, at, pieces)
                continue
            at = self._read(chunk, at)
            if not self._depth:
                self._hold(chunk[start:at])
                pieces.append(self._take())
        if self._depth:
            self._hold(chunk[start:])
        self._line += chunk.count(b"\n")
        return pieces

    def _begin(self, chunk: bytes, at: int, pieces: list[JsonPiece]) -> int:
        """Return the index where the next object begins, or the end of the chunk."""
        brace = chunk.find(b"{", at)
        end = len(chunk) if brace < 0 else brace
        between = chunk[at:end].strip(BETWEEN)
        self._started = self._line + chunk.count(b"\n", 0, end)
        if between:
            pieces.append(JsonPiece(self._started, between[: self._kept], len(between) > self._kept))
        if brace >= 0:
            self._depth = 1
            self._hold(b"{")
            return brace + 1
        return end

    def _read(self, chunk: bytes, at: int) -> int:
        """Read up to the next byte that changes the depth, or to the end of the chunk. Return the index after it."""
        if self._escaped:
            self._escaped = False
            return at + 1
        match = (IN_TEXT if self._text else STRUCTURE).search(chunk, at)
        if match is None:
            return len(chunk)
        byte = match[0]
        if byte == b'"':
            self._text = not self._text
        elif byte == b"\\":
            self._escaped = True
        else:
            self._depth += 1 if byte == b"{" else -1
        return match.end()

    def _hold(self, piece: bytes) -> None:
        if self._cut or self._held + len(piece) > self._most:
            self._cut = True
            piece = piece[: max(0, self._kept - self._held)]
        self._pieces.append(piece)
        self._held += len(piece)

    def _take(self) -> JsonPiece:
        piece = JsonPiece(self._started, b"".join(self._pieces), self._cut)
        self._pieces.clear()
        self._held, self._cut = 0, False
        return piece
