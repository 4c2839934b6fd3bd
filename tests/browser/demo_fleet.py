"""The recorded fleets of examples/, on every wire, as if they had run over the last hours and were running now."""

import random
import time
from collections.abc import Iterable
from dataclasses import replace

from pipeline.cli.files.recordings import Recording, Stream
from tests.browser.stage import FLEET, WIRES, recordings

HOUR = 3_600_000  # ms


def shifted(run: Stream, started: int) -> Stream:
    """The same run, as if it had begun at `started`, epoch ms."""
    return replace(run, started=started, info={**run.info, "started_at": started})


def copies(seed: int, number: int, moments: Iterable[int]) -> list[Recording]:
    """Runs of the fleet, one for each moment, under ids of their own from `number` on."""
    rng = random.Random(seed)
    runs = [run for run in recordings(FLEET, WIRES) if isinstance(run, Stream)]
    found: list[Recording] = []
    for n, started in enumerate(moments):
        copy = rng.choice(runs).copy(number + n, same_thread=False)
        assert isinstance(copy, Stream)
        found.append(shifted(copy, started))
    return found


def history(hours: int, busy: int = 1) -> list[Recording]:
    """Runs of the last hours: now more, now fewer of them, `busy` times as many."""
    rng = random.Random(7)
    now = int(time.time() * 1000)
    moments = [
        now - hour * HOUR + rng.randrange(HOUR)
        for hour in range(hours, 0, -1)
        for _ in range(busy * (rng.randint(6, 14) + 10 * (hour % 7 > 2)))
    ]
    return copies(1, 1000, moments)
