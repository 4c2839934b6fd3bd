"""Ask by a Metadata request over a plain socket whether a Kafka broker is at an address, and of which cluster.

No client library is used, since this must need no event loop, and do no retries and no logging.
Layout: https://kafka.apache.org/protocol#The_Messages_Metadata (version 2: the first with a cluster id).
"""

import socket
import struct
from dataclasses import dataclass
from io import BytesIO

from turnmill.addresses import host_port

METADATA, VERSION = 3, 2
MAX_ANSWER_BYTES = 1 << 20
NO_KAFKA = "what listens there does not speak Kafka, or not in time"


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's view of its cluster: its id, the ids of the brokers that take part, the controller or -1."""

    cluster_id: str | None
    brokers: tuple[int, ...]
    controller: int


def ask(address: str, timeout: float = 1.0) -> Answer | None:
    """Return the answer of the broker at host:port; None if no Kafka broker answers within `timeout` seconds."""
    client = b"turnmill"
    body = struct.pack(">hhih", METADATA, VERSION, 1, len(client)) + client + struct.pack(">i", 0)  # of no topics
    try:
        with socket.create_connection(host_port(address), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            return _parse(stream.read(size)) if 0 < size <= MAX_ANSWER_BYTES else None
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _parse(data: bytes) -> Answer:
    stream = BytesIO(data)

    def number(form: str) -> int:
        return int(struct.unpack(form, stream.read(struct.calcsize(form)))[0])

    def text() -> str | None:
        length = number(">h")
        return None if length < 0 else stream.read(length).decode()

    number(">i")  # correlation id
    brokers = []
    for _ in range(number(">i")):
        brokers.append(number(">i"))
        text()  # host
        number(">i")  # port
        text()  # rack
    return Answer(text(), tuple(sorted(brokers)), number(">i"))
