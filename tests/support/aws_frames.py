"""Events of AWS's streams, in the binary frames in which Bedrock sends them."""

import json
from typing import Any
from zlib import crc32


def frame(kind: str, payload: dict[str, Any]) -> bytes:
    """An event of AWS's streams, in a frame."""
    headers = b""
    for name, value in ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
    data = json.dumps(payload, ensure_ascii=False).encode()
    head = (len(headers) + len(data) + 16).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    framed = head + crc32(head).to_bytes(4, "big") + headers + data
    return framed + crc32(framed).to_bytes(4, "big")
