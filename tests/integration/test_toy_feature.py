"""A feature is a file on each floor and a row in each table: a copy of the program with them stores, serves, prints,
erases and documents it.
"""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from pipeline.settings import Settings
from tests.support import toy_feature, toy_wire
from tests.support.turn_records import make_record
from tests.support.workers import environment
from topics import turn_record

STORE = """
import asyncio, sys
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from topics import turn_record

async def main():
    async with await ThreadStore.open(sys.argv[1]) as store:
        await write_turns(store, [turn_record.decode(sys.stdin.buffer.read())])

asyncio.run(main())
"""
COUNT = """
import asyncio, sys
from sqlalchemy import text
from pipeline.stores import tables_that_follow
from pipeline.stores.database.store import ThreadStore

async def main():
    async with await ThreadStore.open(sys.argv[1]) as store, store.reading() as connection:
        print(await connection.scalar(text("SELECT count(*) FROM answered")))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_feature.program(tmp_path_factory.mktemp("program") / "copy")


def test_a_feature_is_a_file_a_floor_and_a_row_a_table(program: Path, applied_settings: Settings) -> None:
    def run(*command: str, given: bytes = b"") -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=program,
            env=environment(applied_settings, PYTHONPATH=str(program)),
            input=given,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    run("-c", STORE, applied_settings.store_url, given=turn_record.encode(make_record("chat")))
    assert run("-m", "pipeline", "answered", "chat") == "1"
    with toy_wire.gateway(applied_settings, program) as url:
        assert httpx.get(f"{url}/v1/threads/chat/answered").json() == {"responses": 1}
        assert httpx.get(f"{url}/v1/threads/other/answered").status_code == 404
        assert "/v1/threads/{thread_id}/answered" in httpx.get(f"{url}/openapi.json").json()["paths"]
    assert run("-c", COUNT, applied_settings.store_url) == "1"
    run("-m", "pipeline", "threads", "delete", "chat", "--yes")
    assert run("-c", COUNT, applied_settings.store_url) == "0"


def test_its_documentation_follows_from_the_rows(program: Path) -> None:
    toy_wire.run(program, "docs/generate.py")
    assert "| table `answered` |" in (program / "docs" / "retention.md").read_text()
    assert "/v1/threads/{thread_id}/answered" in (program / "docs" / "gateway.md").read_text()
    assert "answered" in toy_wire.run(program, "-m", "pipeline", "--help")
