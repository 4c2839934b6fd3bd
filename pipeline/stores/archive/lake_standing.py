"""The valid rank of each turn, for rows of usage. Calls block."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.stores.archive.lake_merge import Key, Rank
from pipeline.stores.archive.lake_read import standing
from pipeline.stores.archive.lake_rows import Batch
from pipeline.stores.archive.lake_table import Committed, LakeTable


class TurnRanks:
    """The ranks by which a batch's usage rows are merged; taken from `turns`, since a turn may have no usage row."""

    def __init__(self, turns: LakeTable, batch: Batch, merged: Committed) -> None:
        self.turns = turns
        self.batch = batch
        self.snapshot = merged.snapshot
        self.known = merged.best

    def ranks(self) -> Mapping[Key, Rank]:
        """Return the ranks in the table of turns; read again if another commit came since."""
        table = self.turns.load()
        if self.snapshot is None or table.metadata.current_snapshot_id != self.snapshot:
            self.known = standing(table, self.batch.days, self.batch.ranks)
            self.snapshot = table.metadata.current_snapshot_id
        return self.known
