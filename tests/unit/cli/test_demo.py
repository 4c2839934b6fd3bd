"""That Ctrl-C ends the demo."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from pipeline.cli import demo
from pipeline.cli.demo_stage import Worker
from pipeline.settings import Settings


async def test_it_ends_where_a_library_keeps_the_first_cancellation_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 0
    publishing = asyncio.Event()

    async def deaf(*_: Any) -> None:
        nonlocal kept
        publishing.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            kept += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(demo, "publish_all", deaf)
    settings = Settings(store=f"sqlite:///{tmp_path / 'threads.db'}")
    worker = Worker(process=None, port=0, log=tmp_path / "worker.log")  # type: ignore[arg-type]  # nobody asks it
    running = asyncio.create_task(demo._run(settings, [], worker, Progress(disable=True)))
    await publishing.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kept == 1
