"""What a program prints is passed on as it is, and published if it is the stream of a wire."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.cli.programs.tee import tee
from tests.support.spools import away, spooled
from turnmill.control.stopping import RunStopped
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun

LINES = [
    {"type": "thread.started", "thread_id": "01a21e0a"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Hi é 🦊"}},
    {"type": "turn.completed", "usage": {"input_tokens": 12, "output_tokens": 3}},
]
PROGRAM = """
import sys, time
for line in sys.stdin.buffer:
    for at in range(0, len(line), 7):
        sys.stdout.buffer.write(line[at:at + 7])
        sys.stdout.buffer.flush()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)


async def printed(home: Path, output: bytes, status: int = 0) -> list[dict[str, Any]]:
    """The records of a program that prints this."""
    settings = away(home)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(status), stdin=PIPE, stdout=PIPE)
    assert child.stdin is not None
    child.stdin.write(output)
    child.stdin.close()
    await tee(child, Publisher(settings), "codex")
    assert await child.wait() == status
    return spooled(settings)


@pytest.mark.parametrize(("status", "end"), [(0, "complete"), (3, "error")])
async def test_a_run_of_its_lines(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], status: int, end: str
) -> None:
    output = b"".join(json.dumps(line).encode() + b"\n" for line in LINES)
    records = await printed(tmp_path, output, status)
    assert capsysbinary.readouterr().out == output
    assert [event for record in records for event in record["events"]] == LINES
    assert (records[0]["dialect"], records[0]["agent_id"]) == ("codex", "codex")
    assert records[0]["run"]["external_id"] == "01a21e0a"
    assert records[-1]["end"] == end


@pytest.mark.parametrize("output", [b"", b"Hello\n", b'{"x": 1}\n' * 3, b"no end of a line", b"\xff\xfe\n" * 300])
async def test_what_is_no_stream_is_passed_on(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], output: bytes
) -> None:
    assert await printed(tmp_path, output) == []
    assert capsysbinary.readouterr().out == output


async def test_the_command_that_stops_the_run_stops_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command: Any = SimpleNamespace(id="c", by="ann")

    async def stopped(self: PublishedRun, chunk: bytes) -> None:
        raise RunStopped(command)

    monkeypatch.setattr(PublishedRun, "send_bytes", stopped)
    lines = "\n".join(json.dumps(line) for line in LINES[:2])
    program = f"import time; print({lines!r}, flush=True); time.sleep(60)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE)
    await asyncio.wait_for(tee(child, Publisher(away(tmp_path)), "codex"), 20)
    assert await child.wait() < 0
