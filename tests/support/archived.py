"""The archive as a reader sees it: DuckDB, with the queries of docs/archive.md."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "archive.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
EXAMPLE = "s3://bucket/prefix/"


def archive(folder: Path) -> duckdb.DuckDBPyConnection:
    """A connection in which the view of the page is there, over the objects below a folder."""
    connection = duckdb.connect()
    assert EXAMPLE in QUERIES[0]
    connection.execute(QUERIES[0].replace(EXAMPLE, f"{folder}/"))
    return connection


def turns_of(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """thread_id -> its turns, in the order of the thread: the page's last query."""
    rows = connection.execute(QUERIES[-1]).fetchall()
    return {thread_id: [json.loads(turn) for turn in turns] for thread_id, turns in rows}
