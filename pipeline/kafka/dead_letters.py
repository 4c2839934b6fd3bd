"""A refused record -> the dead letter to be produced. The original key and value go untouched."""

from __future__ import annotations

import time

from pipeline.assembly.run import Refused
from pipeline.kafka.outbox import Outgoing
from topics import catalog, dead_letter
from topics.dead_letter import DeadLetter


def outgoing_letter(prefix: str, topic: str, partition: int, refused: Refused) -> Outgoing:
    """`topic` and `partition`: where the record was read; dead letters stay on the same partition number."""
    record = refused.record
    redriven = dict(record.headers).get(f"{dead_letter.PREFIX}redriven") or b""
    letter = DeadLetter(
        reason=refused.reason,
        detail=refused.detail,
        topic=topic,
        partition=partition,
        offset=record.offset,
        time=int(time.time() * 1000),
        key=record.key,
        value=record.value,
        redriven=int(redriven) if redriven.isdigit() and len(redriven) < 10 else 0,
    )
    # A record with neither key nor value can't be sent.
    value = b"" if letter.key is None and letter.value is None else letter.value
    return Outgoing(catalog.DEAD_LETTERS.full_name(prefix), letter.key, value, partition, letter.headers())
