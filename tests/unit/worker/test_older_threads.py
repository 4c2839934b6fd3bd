"""When the store role moves what an older version has stored, and what it logs of that."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import StoreError
from pipeline.stores.summaries import Moved
from pipeline.worker.older_threads import AGAIN, BEGIN, STEP, OlderThreads
from topics.thread_key import ThreadKey

A, B = ThreadKey("a", "acme"), ThreadKey("b", "acme")


class Clocked:
    """An OlderThreads whose store answers with `left`, one after the other; `asked`: when, and behind which text."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: Sequence[Moved | StoreError]) -> None:
        self.now, self.left, self.asked = 1000.0, list(left), list[tuple[float, str]]()
        monkeypatch.setattr("pipeline.worker.older_threads.time.monotonic", lambda: self.now)
        self.older = OlderThreads(self.opened)

    async def opened(self) -> Any:
        return SimpleNamespace(move_older=self.move_older)

    async def move_older(self, after: str) -> Moved:
        self.asked.append((self.now, after))
        found = self.left.pop(0)
        if isinstance(found, StoreError):
            raise found
        return found

    async def steps(self, *waits: float) -> None:
        for wait in waits:
            self.now += wait
            await self.older.step()


async def test_it_begins_late_goes_on_in_steps_and_then_looks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    away = StoreError("away", transient=True)
    clocked = Clocked(
        monkeypatch, [Moved(200, after=""), Moved(7, after="a"), Moved(), Moved(1, after="b"), away, Moved()]
    )
    await clocked.steps(0, BEGIN - 1, 1, STEP / 2, STEP / 2, STEP, AGAIN / 2, AGAIN / 2, STEP, STEP, AGAIN - STEP)
    begin = 1000 + BEGIN
    again = begin + 2 * STEP + AGAIN
    assert clocked.asked == [
        (begin, ""),
        (begin + STEP, ""),
        (begin + 2 * STEP, "a"),
        (again, ""),
        (again + STEP, "b"),
        (again + STEP + AGAIN, "b"),
    ]


async def test_it_names_the_threads_that_keep_turns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = [Moved(0, (A,), "a"), Moved(3, (B,), "b"), Moved()]
    clocked = Clocked(monkeypatch, [*rounds, *rounds, Moved(0, (A,), "a"), Moved(), Moved(), *rounds])
    await clocked.steps(BEGIN, *[AGAIN] * 11)
    assert not clocked.left
    messages = [record.getMessage() for record in caplog.records]
    assert [("threads: 2" in one, A.text in one, B.text in one) for one in messages] == [
        (True, True, True),
        (False, True, False),
        (True, True, True),
    ]
