"""The dead-letters topic: the original key and value, unchanged; the reason and the origin in the headers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnmill.errors import Reason

VERSION = 1
PREFIX = "turnmill."
MAX_DETAIL_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One refused record. `time`: epoch ms of the refusal; `redriven`: how often it was produced again."""

    reason: Reason
    detail: str
    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    redriven: int = 0

    def headers(self) -> list[tuple[str, bytes]]:
        """Return Kafka headers, text in UTF-8."""
        fields = {
            "reason": self.reason.value,
            "detail": self.detail[:MAX_DETAIL_CHARACTERS],
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "time": str(self.time),
            "redriven": str(self.redriven),
        }
        return [(PREFIX + name, text.encode("utf-8", "replace")) for name, text in fields.items()]


def from_record(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]] | Sequence[tuple[str, bytes]]
) -> DeadLetter:
    """Return the dead letter in a record of the topic. Raises KeyError or ValueError if the headers are not ours."""
    fields = {
        name.removeprefix(PREFIX): text.decode("utf-8", "replace") for name, text in headers if name.startswith(PREFIX)
    }
    return DeadLetter(
        reason=Reason(fields["reason"]),
        detail=fields["detail"],
        topic=fields["topic"],
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        time=int(fields["time"]),
        key=key,
        value=value,
        redriven=int(fields.get("redriven", "0")),
    )
