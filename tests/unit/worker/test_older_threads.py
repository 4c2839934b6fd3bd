"""When the store role moves what an older version has stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import StoreError
from pipeline.worker.older_threads import AGAIN, BEGIN, STEP, OlderThreads


async def test_it_begins_late_goes_on_in_steps_and_then_looks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 1000.0, list[float]()
    left: list[int | StoreError] = [200, 7, 0, StoreError("away", transient=True), 3]
    monkeypatch.setattr("pipeline.worker.older_threads.time.monotonic", lambda: now)

    async def move_older() -> int:
        asked.append(now)
        found = left.pop(0)
        if isinstance(found, StoreError):
            raise found
        return found

    async def opened() -> Any:
        return SimpleNamespace(move_older=move_older)

    older = OlderThreads(opened)
    for wait in (0, BEGIN - 1, 1, STEP / 2, STEP / 2, STEP, AGAIN / 2, AGAIN / 2, AGAIN):
        now += wait
        await older.step()
    begin = 1000 + BEGIN
    assert asked == [begin, begin + STEP, begin + 2 * STEP, begin + 2 * STEP + AGAIN, begin + 2 * STEP + 2 * AGAIN]
