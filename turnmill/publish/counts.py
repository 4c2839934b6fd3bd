"""Counts of a publisher's records, in total and by place."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """The counts of a publisher. `bytes`: of record values. `adopted`: records from the spools of dead processes."""

    runs: int = 0
    events: int = 0
    records: int = 0
    bytes: int = 0
    confirmed: int = 0
    adopted: int = 0
    dropped: int = 0
    refused: int = 0

    @property
    def unconfirmed(self) -> int:
        """The number of records that are not confirmed yet, in memory or on disk."""
        return self.records + self.adopted - self.confirmed - self.dropped - self.refused


@dataclass(frozen=True, slots=True)
class Report:
    """A publisher's records by place: sent + adopted = confirmed + waiting + spooled + dropped + refused.

    `adopted`: found in the spools of dead processes. `waiting`: in memory. `spooled`: on disk. `dropped`: only with
    TURNMILL_SPOOL_POLICY=drop. `refused`: by the broker for good, and kept in a file. `damaged`: regions of adopted
    files that could not be read, moved to a folder. `trouble`: the reason if nothing is confirmed at the moment.
    """

    sent: int
    confirmed: int
    waiting: int
    spooled: int
    dropped: int
    refused: int
    adopted: int
    damaged: int
    trouble: str | None
