"""The lines of a session's file, which grows while they are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from topics.json_text import Fields, list_of
from turnmill.errors import InvalidRecord
from turnmill.limits import EVENT_BYTES
from turnmill.wire.envelope import loads

CHUNK_BYTES: Final = 1 << 20  # read at a time
SESSION_BYTES: Final = 256 << 20  # of a file that is read as a whole


class Lines:
    """The lines of a file that grows: `read` goes on where it stopped.

    `broken`: the numbers of those that are no JSON object, or their ids.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0  # bytes of whole lines that were read
        self.broken: list[int | str] = []
        self.number = 0  # of the last line

    @staticmethod
    def extent(path: Path) -> int:
        """Return a number that grows with the file."""
        return path.stat().st_size

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (object, bytes) of each new line. A last line that isn't whole yet is left for the next time."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while line := file.readline(EVENT_BYTES):
                size = len(line)
                while line[-1:] != b"\n" and (more := file.readline(CHUNK_BYTES)):  # too long: the rest is not held
                    size, line = size + len(more), more[-1:]
                value = object_in_line(line)
                if value is None and line[-1:] != b"\n":
                    return
                self.offset += size
                self.number += 1
                if value is not None:
                    yield value, size
                elif line.strip():
                    self.broken.append(self.number)

    @property
    def here(self) -> int | str:
        """The place of the last line: its number, or its id."""
        return self.number

    @property
    def rest(self) -> int:
        """Bytes that were not read: of a line that is not whole."""
        return self.path.stat().st_size - self.offset


class Whole(Lines):
    """A session in one JSON object, whose messages are the lines; it is read as a whole whenever it has changed.

    One that goes on as lines in a file beside it has none.
    """

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (object, bytes) of its facts, and of all its messages."""
        size, before = self.path.stat().st_size, self.offset
        if size == before or self.path.with_suffix(".jsonl").exists():
            return
        value = object_in_line(self.path.read_bytes()) if size <= SESSION_BYTES else None
        if value is None:  # it is being written, or can't be read
            self.broken, self.number = [1], 1
            return
        self.offset, self.broken = size, []
        messages = value.pop("messages", None)
        yield value, size - before
        for self.number, message in enumerate(list_of(messages), 1):
            if isinstance(message, dict):
                yield message, 0


class Zipped(Lines):
    """A session that its program has compressed with zstd and no longer writes: `read` yields all of it, once."""

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (object, bytes). Raises OSError for a damaged file."""
        size = self.path.stat().st_size
        if size == self.offset:
            return
        self.offset = size
        with unzipped(self.path) as file:
            while line := file.readline(SESSION_BYTES):
                self.number += 1
                value = object_in_line(line)
                if value is not None:
                    yield value, 0
                elif line.strip():
                    self.broken.append(self.number)


@contextmanager
def unzipped(path: Path) -> Iterator[BufferedReader]:
    """Open a compressed file. Raises OSError for a damaged file."""
    import zstandard  # noqa: PLC0415  # the worker's extra, which commands on histories of SDKs do without

    try:
        with path.open("rb") as file:
            reader: Any = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield BufferedReader(reader, CHUNK_BYTES)
    except zstandard.ZstdError as error:
        raise OSError(0, str(error)) from error


def object_in_line(line: bytes) -> Fields | None:
    """Return the JSON object of a line; None where it is none."""
    try:
        value = loads(line)
    except (InvalidRecord, RecursionError):
        return None
    return value if isinstance(value, dict) else None
