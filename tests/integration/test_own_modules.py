"""A program that has a `pipeline.py` and a `topics.py` of its own publishes with the client."""

import asyncio
import sys
from pathlib import Path

from pipeline.settings import Settings
from tests.support.topic_records import read_all
from tests.support.workers import environment
from topics.catalog import EVENTS
from turnmill.wire.envelope import decode

PROGRAM = """
import asyncio

import pipeline
import topics
from turnmill import Publisher, SyncPublisher

RUN = {"thread_id": "t", "agent_id": "a", "dialect": "vercel-ai"}


async def main():
    async with Publisher() as publisher:
        async with publisher.run(**RUN, run_id="one", info={"request": topics.NAMES}) as run:
            async for _ in run.tee(pipeline.events()):
                pass
        await publisher.flush()


asyncio.run(main())
with SyncPublisher() as publisher, publisher.run(**RUN, run_id="two") as run:
    list(run.tee_bytes([b'data: {"type": "start"}\\n\\n']))
print(publisher.report().confirmed, pipeline.__file__, topics.__file__)
"""
PIPELINE = """
async def events():
    yield {"type": "start"}
    yield {"type": "finish"}
"""


async def test_a_program_with_modules_of_the_same_names(applied_settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    for name, text in (("program", PROGRAM), ("pipeline", PIPELINE), ("topics", "NAMES = ['orders']")):
        (folder / f"{name}.py").write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, folder / "program.py"), env=environment(applied_settings), cwd=folder, stdout=-1, stderr=-1
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert out.decode().split() == ["1", str(folder / "pipeline.py"), str(folder / "topics.py")]
    records = [decode(row.value) for row in await read_all(applied_settings, EVENTS)]  # type: ignore[attr-defined]
    assert {record["run_id"]: (record["events"], record["end"]) for record in records} == {
        "one": ([{"type": "start"}, {"type": "finish"}], "complete"),
        "two": ([{"type": "start"}], "complete"),
    }
