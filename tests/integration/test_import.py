"""A history, imported through the broker: stored as `turnmill import` prints it, and once."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pipeline.dialects import FORMATS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from pipeline.turns.canonical import turn_hash
from tests.support.places import ROOT
from tests.support.workers import WorkerProcess, environment, wait_until_stored
from topics.thread_key import ThreadKey

HISTORY = ROOT / "tests/corpus/pydantic-ai/2.68.0/history_two_turns__2.messages.json"


async def turnmill(settings: Settings, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipeline", *arguments), env=environment(settings), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def import_history(settings: Settings, file: Path, *options: str) -> str:
    return await turnmill(settings, "import", "--from", "pydantic-ai", "--thread", "chat-17", *options, str(file))


async def test_a_published_history_is_stored_once(applied_settings: Settings, tmp_path: Path) -> None:
    printed: dict[str, Any] = json.loads(await import_history(applied_settings, HISTORY))
    first = tmp_path / "first.json"
    first.write_text(json.dumps(json.loads(HISTORY.read_text())[:2]))
    worker = WorkerProcess(applied_settings).start()
    try:
        assert await import_history(applied_settings, first, "--publish") == "published 2 turns of 1 threads\n"
        await wait_until_stored(applied_settings, 2, [worker])
        assert await import_history(applied_settings, HISTORY, "--publish") == "published 4 turns of 1 threads\n"
        await wait_until_stored(applied_settings, 4, [worker])
        async with await ThreadStore.open(applied_settings.store_url) as store:
            document = await read_thread(store, ThreadKey(printed["thread_id"]))
    finally:
        worker.end()
    assert document is not None
    assert [turn_hash(turn) for turn in document["turns"]] == [turn_hash(turn) for turn in printed["turns"]]
    assert FORMATS["pydantic-ai"].write(document) == FORMATS["pydantic-ai"].write(printed)
    assert document["metadata"]["meta:external_id"] == "chat-17"
