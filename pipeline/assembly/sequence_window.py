"""Early records of a run, which wait for the events before them."""

import copy
import heapq

from pipeline.assembly.records import Envelope, Record


class SequenceWindow(dict[int, tuple[Envelope, Record]]):
    """Early records by the seq of their first event; `events`: the number of their events.

    It is a dict, so that asking whether it is empty costs nothing: the hot path does so for each record.
    """

    __slots__ = ("events", "order")

    def __init__(self) -> None:
        self.events = 0  # a record without any counts as one
        self.order: list[int] = []  # the seqs, as a heap

    def put(self, envelope: Envelope, record: Record) -> None:
        """Keep a record. Of two with the same seq, the one with more events stays, with the `end` of either."""
        seq = envelope["seq"]
        if seq in self:
            held, other = self[seq]
            self.events -= _weight(held)
            if len(held["events"]) > len(envelope["events"]):
                envelope, record, held = held, other, envelope
            if envelope.get("end") is None and held.get("end") is not None:
                envelope = copy.copy(envelope)
                envelope["end"] = held["end"]
        else:
            heapq.heappush(self.order, seq)
        self[seq] = (envelope, record)
        self.events += _weight(envelope)

    def holds(self, envelope: Envelope) -> bool:
        """Return True if all events of a record, and its `end`, wait already."""
        if envelope["seq"] not in self:
            return False
        held = self[envelope["seq"]][0]
        enough = len(held["events"]) >= len(envelope["events"])
        return enough and (envelope.get("end") is None or held.get("end") is not None)

    def take_due(self, following: int) -> tuple[Envelope, Record] | None:
        """Remove and return the first record, if it starts at or before the event `following`."""
        if not self.order or self.order[0] > following:
            return None
        due = self.pop(heapq.heappop(self.order))
        self.events -= _weight(due[0])
        return due

    def take_all(self) -> list[tuple[Envelope, Record]]:
        """Remove and return all records, sorted by seq."""
        held = [self[seq] for seq in sorted(self)]
        self.clear()
        self.order.clear()
        self.events = 0
        return held

    def holes(self, following: int) -> list[list[int]]:
        """Return the missing seqs from `following` on, as [first, last] of each hole."""
        holes, at = [], following
        for seq in sorted(self):
            if seq > at:
                holes.append([at, seq - 1])
            at = max(at, seq + len(self[seq][0]["events"]))
        return holes

    def last_seq(self, following: int) -> int:
        """Return the highest seq seen, given that all before `following` were seen."""
        ends = [seq + len(envelope["events"]) for seq, (envelope, _) in self.items()]
        return max([following, *ends]) - 1


def _weight(envelope: Envelope) -> int:
    return len(envelope["events"]) or 1
