"""AWS's event streams (`application/vnd.amazon.eventstream`): frames of headers and JSON, each with two checksums.

    total length, length of headers, CRC of both; headers; payload; CRC of all before it (all 4 bytes, big-endian)

https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final
from zlib import crc32

from turnmill.errors import InvalidRecord, Reason

PRELUDE: Final = 12  # bytes
CHECKSUM: Final = 4
TEXT: Final = b"\x07"  # the type of a header whose value is a text, as all of Bedrock's


class Frames:
    """A parser that holds at most one frame of at most `most` bytes; nothing is read behind a wrong frame."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events of the frames that the chunk completes, as JSON: {TYPE: PAYLOAD}. Raises InvalidRecord."""
        data, at = self._held + chunk, 0
        while len(data) - at >= PRELUDE:
            size, length, checksum = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (0, 4, 8))
            if crc32(data[at : at + 8]) != checksum or not PRELUDE + length + CHECKSUM <= size <= self._most:
                raise InvalidRecord(
                    Reason.UNDECODABLE, "the lengths of a frame have a wrong checksum, or are too large"
                )
            if len(data) - at < size:
                break
            frame, at = data[at : at + size], at + size
            if crc32(frame[:-CHECKSUM]) != int.from_bytes(frame[-CHECKSUM:], "big"):
                raise InvalidRecord(Reason.UNDECODABLE, "a frame has a wrong checksum")
            yield _event(_headers(frame[PRELUDE : PRELUDE + length]), frame[PRELUDE + length : -CHECKSUM] or b"{}")
        self._held = data[at:]


def base64_of(value: Any) -> str:
    """Return bytes as base64: of boto3 (bytes), of JavaScript ({"0": 1, …}), or as frames and recordings have them."""
    match value:
        case str():
            return value
        case {"$bytes": str(text)}:
            return text
        case bytes():
            return base64.b64encode(value).decode()
        case {"0": int()}:
            return base64.b64encode(bytes(value.values())).decode()
    return ""


def _event(headers: dict[bytes, bytes], payload: bytes) -> bytes:
    kind = headers.get(b":message-type", b"event")
    code, message, name = (
        json.dumps(headers.get(key, b"").decode("utf-8", "replace")).encode()
        for key in (b":error-code", b":error-message", b":%s-type" % kind)
    )
    if kind == b"error":
        return b'{"error": {"code": %s, "message": %s}}' % (code, message)
    return b"{%s: %s}" % (name, payload)


def _headers(data: bytes) -> dict[bytes, bytes]:
    """Return the headers whose values are texts; those behind another kind are not read."""
    headers, at = {}, 0
    while at < len(data):
        end = at + 1 + data[at]
        if data[end : end + 1] != TEXT:
            break
        start = end + 3
        stop = start + int.from_bytes(data[end + 1 : start], "big")
        headers[data[at + 1 : end]] = data[start:stop]
        at = stop
    return headers
