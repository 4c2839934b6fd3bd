"""Workers die, freeze, come and go, and disagree about the time or the version."""

import asyncio
import signal
from pathlib import Path

from tests.chaos.scene import STARTED, Scene
from tests.support.workers import WorkerProcess

REACHED = 60.0  # seconds for the work that is left when all is published


async def killed_in_mid_turn(scene: Scene) -> None:
    await scene.start()
    scene.publish()
    for share, number in ((0.3, 0), (0.6, 1)):
        await scene.published(share)
        scene.crew[number].kill()
        await asyncio.sleep(1)
        scene.crew[number].start()


async def killed_after_store(scene: Scene) -> None:
    await _sabotaged(scene, ("stored", 1), ("stored", 3), ("stored", 7))


async def killed_after_produce(scene: Scene) -> None:
    """At each place between handing turns to the producer and committing, another one first with each seed."""
    points = ["produced", "delivered", "marked", "flushed"]
    points = points[scene.seed % 4 :] + points[: scene.seed % 4]
    await _sabotaged(scene, (points[0], 1), (points[1], 3), (points[2], 7))


async def _sabotaged(scene: Scene, *points: tuple[str, int]) -> None:
    """Let workers die at points. The first one dies the first time, as a slow machine may do all in a few batches."""
    for point, count in points:
        scene.worker("-m", "tests.chaos.saboteur", point, str(count)).start()
    saboteurs = list(scene.crew)
    await asyncio.gather(*(worker.url(STARTED) for worker in saboteurs))
    scene.publish()
    alive = {worker.name: worker for worker in saboteurs}
    while alive and not (scene.publishing and scene.publishing.task.done()):
        await _replace_dead(scene, alive)
        await asyncio.sleep(0.1)
    idle = asyncio.ensure_future(scene.idle(REACHED))  # while there is work, the last ones may reach their points
    while alive and not idle.done():
        await _replace_dead(scene, alive)
        await asyncio.sleep(0.1)
    idle.cancel()
    await _replace_dead(scene, alive)
    died = len(saboteurs) - len(alive)
    assert died, "no worker reached its point"
    scene.note = f"{died} died there"
    for worker in alive.values():
        worker.stop()
        scene.worker().start()


async def _replace_dead(scene: Scene, alive: dict[str, WorkerProcess]) -> None:
    for name, worker in list(alive.items()):
        assert worker.process is not None
        if worker.process.poll() is not None:
            assert worker.process.returncode == -signal.SIGKILL, worker.text()[-2000:]
            del alive[name]
            scene.worker().start()


async def zombie(scene: Scene) -> None:
    await scene.start()
    scene.publish()
    await scene.published(0.2 + 0.1 * scene.seed)
    frozen = scene.crew[scene.seed % len(scene.crew)].process
    assert frozen is not None
    frozen.send_signal(signal.SIGSTOP)
    await asyncio.sleep(scene.settings.session_timeout + 6)
    frozen.send_signal(signal.SIGCONT)
    scene.mended()
    await asyncio.sleep(4)  # time to do harm


async def rolled(scene: Scene) -> None:
    await scene.start()
    scene.publish()
    await scene.published(0.1)
    for worker in scene.crew:
        assert await asyncio.to_thread(worker.stop) == 0
        worker.start()
        await asyncio.sleep(1)


async def scaled(scene: Scene) -> None:
    await scene.start(1)
    scene.publish(times=2)
    for share in (0.1, 0.4, 0.7):
        await scene.published(share)
        await scene.start(2)
        await asyncio.sleep(1)
        for worker in scene.crew[-2:]:
            assert await asyncio.to_thread(worker.stop) == 0


async def clocks_apart(scene: Scene) -> None:
    site = str(Path(__file__).parent.absolute() / "clock")
    clocks = [scene.folder / f"clock-{number}" for number in range(2)]
    for clock in clocks:
        clock.write_text("0")
        scene.worker(PYTHONPATH=site, CHAOS_CLOCK=str(clock)).start()
    await scene.start(1)
    await scene.ready(*scene.crew)
    scene.publish()
    for share, shifts in ((0.3, ("3600", "-3600")), (0.7, ("-3600", "3600"))):
        await scene.published(share)
        for clock, shift in zip(clocks, shifts, strict=True):
            clock.write_text(shift)
    await scene.all_published()
