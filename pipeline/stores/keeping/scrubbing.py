"""Removal of deleted bytes from SQLite's files.

Freed pages are overwritten as they are freed (`engine`). After an erasure the index of words, which still has the words
of deleted rows, is merged, and the log, which still has their pages, is emptied. On Postgres VACUUM does that.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from pipeline.stores.database.engine import EMPTY_MS, SQLITE
from pipeline.stores.database.store import ThreadStore

PAGES: Final = 500  # of the index, merged in one transaction: about 0.1 s
MAX_ATTEMPTS: Final = 20  # to empty the log; each waits for readers, and blocks writers, for at most EMPTY_MS

MERGE: Final = "INSERT INTO turn_words_index(turn_words_index, rank) VALUES ('merge', {})"


async def scrub(store: ThreadStore) -> bool:
    """Remove deleted rows' bytes from the files; return False if a long-running reader prevents emptying the log.

    To be called after an erasure, once for all of its threads.
    """
    if not store.url.startswith(SQLITE):
        return True
    with store.failures():
        return await asyncio.to_thread(_scrub, Path(store.url.removeprefix(SQLITE)))


def _scrub(file: Path) -> bool:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=15.0)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        pages, merged = -PAGES, True  # below 0: merge all parts of the index, however few
        while merged:
            before = connection.total_changes
            connection.execute(MERGE.format(pages))
            pages, merged = PAGES, connection.total_changes - before > 1  # fewer changes: nothing was left to merge
        connection.execute(f"PRAGMA busy_timeout={EMPTY_MS}")
        return any(
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0 for _ in range(MAX_ATTEMPTS)
        )
