"""That Ctrl-C ends the demo, and where it puts what it makes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from pipeline.cli.dev import demo
from pipeline.cli.dev.broker import Child
from pipeline.cli.dev.demo import settings_of_demo
from pipeline.settings import Settings, load


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
    worker = Child("worker", process=None, port=0, log=tmp_path / "worker.log")  # type: ignore[arg-type]  # nobody asks it
    running = asyncio.create_task(demo._run(settings, [], worker, Progress(disable=True)))
    await publishing.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kept == 1


def test_what_it_makes_is_in_the_cache_or_in_the_home_that_was_named(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    found = settings_of_demo(load({"TURNMILL_CACHE": cache}))
    assert (found.home, found.cache_folder) == (tmp_path / "cache" / "demo", tmp_path / "cache")
    home = str(tmp_path / "home")
    assert settings_of_demo(load({"TURNMILL_CACHE": cache, "TURNMILL_HOME": home})).home == tmp_path / "home" / "demo"
