"""The lake as a reader sees it, and what must be in it."""

import json
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import Table

from pipeline.settings import Settings
from pipeline.stores.archive.lake_catalog import NAMESPACE, LakeLocation
from pipeline.stores.threads.rows import record_rows
from pipeline.turns.thread_document import digest, newest


def table(settings: Settings, name: str) -> Table:
    return LakeLocation.of(settings).open().load_table((NAMESPACE, name))


def turns(settings: Settings) -> dict[tuple[str, str], list[Any]]:
    """(thread_id, tenant) -> its turns in order, as pyiceberg reads them."""
    rows = table(settings, "turns").scan().to_arrow().to_pylist()
    rows.sort(
        key=lambda row: (row["started_at"], row["role"] == "agent", row["run_id"], row["ordinal"], row["turn_id"])
    )
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        if row["document"] is not None:
            found.setdefault((row["thread_id"], row["tenant"] or ""), []).append(json.loads(row["document"]))
    return found


def digests(settings: Settings) -> list[tuple[str, str, str]]:
    """(thread_id, tenant, digest) of all rows of turns."""
    rows = table(settings, "turns").scan().to_arrow().to_pylist()
    return sorted((row["thread_id"], row["tenant"] or "", row["digest"]) for row in rows)


def usage_rows(settings: Settings) -> list[tuple[str, int, int | None]]:
    """(digest of the turn's record, position, tokens) of all rows of usage."""
    rows = table(settings, "usage").scan().to_arrow().to_pylist()
    return sorted((row["digest"], row["position"], row["total_tokens"] or 0) for row in rows)


def expected(records: list[Any]) -> tuple[list[Any], list[Any]]:
    """What `digests` and `usage_rows` must give for these records."""
    of_tenants: dict[str, list[Any]] = {}
    for record in records:
        of_tenants.setdefault(record.get("tenant") or "", []).append(record)
    rows = [(digest(record), record_rows(record)) for some in of_tenants.values() for record in newest(some)]
    return (
        sorted((one.thread.thread_id, one.thread.tenant or "", known_by) for known_by, one in rows),
        sorted((known_by, row["position"], row["total_tokens"] or 0) for known_by, one in rows for row in one.usage),
    )


def by_duckdb(settings: Settings, name: str, query: str) -> list[tuple[Any, ...]]:
    """A query over the current snapshot's files as they are: `FROM rows`."""
    found = table(settings, name)
    paths = [task.file.file_path.removeprefix("file://") for task in found.scan().plan_files()]
    with duckdb.connect() as connection:
        connection.register("rows", connection.read_parquet(paths, union_by_name=True))
        return connection.execute(query).fetchall()


def files_with(folder: Path, text: str) -> list[str]:
    """The Parquet files below a folder that hold a text in some column."""
    with duckdb.connect() as connection:
        found = []
        for path in sorted(folder.rglob("*.parquet")):
            rows = connection.execute(
                f"SELECT count(*) FROM read_parquet('{path}') t WHERE to_json(t)::VARCHAR LIKE ?", [f"%{text}%"]
            ).fetchone()
            if rows and rows[0]:
                found.append(path.name)
        return found
