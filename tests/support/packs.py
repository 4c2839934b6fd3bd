"""A content store on disk as its tests see it: what its packs hold, read from the files, and when it was written."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pipeline.stores.content.pack_records import records, value_of


def packed(folder: Path) -> dict[str, bytes]:
    """FOLDER/SHA256 and value of each record of all packs, in the order in which they were written."""
    found = {}
    for path in sorted(folder.glob("*.pack"), key=lambda path: path.stat().st_ctime_ns):
        file = os.open(path, os.O_RDONLY)
        for record in records(file, 0):
            if record.folder:
                found[f"{record.folder}/{record.digest.hex()}"] = value_of(file, record)
        os.close(file)
    return found


def written_at(folder: Path, at: int, digest: str | None = None, thread: str | None = None) -> None:
    """Date values to this time, in epoch ms: all, those of this SHA-256, or of a thread's folder alone."""
    with closing(sqlite3.connect(folder / "index.db")) as connection, connection:
        wanted = bytes.fromhex(digest.removeprefix("sha256:")) if digest is not None else None
        connection.execute(
            "UPDATE places SET written = ? WHERE digest = coalesce(?, digest) AND folder = coalesce(?, folder)",
            (at, wanted, thread),
        )
