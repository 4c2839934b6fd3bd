"""Play scenarios one after the other on one cluster."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.cluster import Brokers
from tests.chaos.scenarios import Scenario
from tests.chaos.scene import PACE, WORKERS, Outcome, Scene
from tests.chaos.stores import Postgres, PostgresServer, Replicated, Sqlite, Store


@dataclass(slots=True)
class Stage:
    """Where scenarios are played; Postgres is started when one needs it.

    What is given replaces what is usual: seconds and runs of a load, workers, settings. `beside`: as in `Scene`.
    """

    brokers: Brokers
    folder: Path
    cache: Path
    pace: float = PACE
    runs: int | None = None
    workers: int = WORKERS
    settings: Mapping[str, Any] = field(default_factory=dict)
    beside: str | None = None
    server: PostgresServer | None = None

    async def store(self, kind: str, *, small_disk: bool, standby: bool) -> Store:
        """An empty store."""
        if standby:
            return Replicated(await PostgresServer().start())
        if kind == "sqlite":
            return Sqlite(small=small_disk)
        if small_disk:
            return Postgres(await PostgresServer(small=True).start(), own=True)
        self.server = self.server or await PostgresServer().start()
        return Postgres(self.server)

    async def end(self) -> None:
        if self.server is not None:
            await self.server.end()


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario with one seed on one store."""

    scenario: Scenario
    seed: int
    store: str
    outcome: Outcome


async def play(stage: Stage, scenario: Scenario, seed: int, kind: str) -> Played:
    """One scenario, from start to check. What goes wrong is in the outcome, never raised."""
    began = time.monotonic()
    logs = ""
    outcome = Outcome()
    try:
        load = scenario.load(seed, stage.runs or scenario.runs)
        store = await stage.store(kind, small_disk=scenario.small_disk, standby=scenario.standby)
        settings = {**scenario.settings, **stage.settings}
        scene = Scene(scenario.name, seed, stage.brokers, store, load, stage.folder, stage.cache, **settings)
        scene.pace, scene.workers, scene.beside = stage.pace, stage.workers, stage.beside
        async with scene:
            try:
                await scenario.act(scene)
                if not scene.over:
                    scene.mended()
                outcome = await scenario.look(scene, scenario.within)
            finally:
                logs = scene.logs()
    except Exception as error:
        outcome.problems += [f"{type(e).__name__}: {e}" for e in (error.__context__, error) if e is not None]
    outcome.seconds = time.monotonic() - began
    if outcome.problems and logs:
        outcome.problems.append(f"look at the workers' logs, which end so:\n{logs}")
    return Played(scenario, seed, kind, outcome)


async def play_all(
    stage: Stage, plan: Sequence[tuple[Scenario, int, str]], tell: Callable[[Played], None]
) -> list[Played]:
    """Each in its turn, whatever became of those before."""
    played = []
    for scenario, seed, kind in plan:
        played.append(await play(stage, scenario, seed, kind))
        tell(played[-1])
    return played
