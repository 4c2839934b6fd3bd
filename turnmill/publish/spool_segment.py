"""One segment of the spool: a file of records (`publish.spool_frames`), and a file with the confirmed offset."""

from __future__ import annotations

import logging
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ACK: Final = struct.Struct("<QI")  # offset, CRC-32 of it

log = logging.getLogger("turnmill.publish.spool")


@dataclass(slots=True, eq=False)
class Segment:
    """One file. `size`, `read` and `acked` are offsets in it."""

    path: Path
    size: int = 0
    read: int = 0
    acked: int = 0

    def bytes_from(self, start: int) -> bytes:
        """Return the bytes from `start` to `size`."""
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(self.size - start)

    def write_ack(self) -> None:
        """Write the confirmed offset to disk."""
        offset = self.acked.to_bytes(8, "little")
        try:
            descriptor = os.open(self.path.with_suffix(".ack"), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(descriptor, ACK.pack(self.acked, zlib.crc32(offset)), 0)
            finally:
                os.close(descriptor)
        except OSError as error:  # a full disk: after a crash some records would be sent again, which does no harm
            log.debug("%s: %r", self.path, error)

    def remove(self) -> None:
        """Delete the segment and the file with its confirmed offset."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".ack").unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """The end of a record in its segment."""

    segment: Segment
    end: int


@dataclass(frozen=True, slots=True)
class Spooled:
    """A record that was read back."""

    key: bytes
    value: bytes
    place: RecordEnd


def opened(path: Path) -> Segment:
    """Return the segment of an existing file, to be read from its confirmed offset."""
    size = path.stat().st_size
    begin = min(_read_ack(path), size)
    return Segment(path, size=size, read=begin, acked=begin)


def _read_ack(path: Path) -> int:
    try:
        offset, checksum = ACK.unpack(path.with_suffix(".ack").read_bytes())
    except (FileNotFoundError, struct.error):
        return 0
    return int(offset) if zlib.crc32(offset.to_bytes(8, "little")) == checksum else 0
