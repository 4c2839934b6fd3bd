"""What goes wrong while a schedule's agents publish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tests.simulation import retention
from tests.simulation.loop import Process
from topics.thread_key import ThreadKey

if TYPE_CHECKING:
    from tests.simulation.world import World


def kill(world: World) -> None:
    """A worker, between any two of its steps."""
    process = _some(world, [worker.process for worker in world.living()])
    if process is not None:
        process.fuse = world.rng.randrange(world.rng.choice((1, 20, 100, 300)))
        world.trace(f"{process.name} will be killed in {process.fuse} steps")


def start(world: World) -> None:
    """One more worker."""
    world.start_worker()


def stop(world: World) -> None:
    """A worker, in order."""
    living = world.living()
    if living:
        worker = world.rng.choice(living)
        world.trace(f"{worker.process.name} is told to stop")
        worker.stop()


def freeze(world: World) -> None:
    """A worker sleeps, perhaps for longer than its session."""
    process = _some(world, [worker.process for worker in world.living()])
    if process is not None:
        world.trace(f"{process.name} freezes")
        process.stop()
        world.loop.call_later(world.rng.choice((0.5, 2.0, 6.0)), process.go_on)


def resume(world: World) -> None:
    """All that sleeps goes on."""
    for worker in world.living():
        worker.process.go_on()


def compact(world: World) -> None:
    """The state topic is cleaned."""
    for log in world.broker.topic("state"):
        log.compact(world.rng)


def retain(world: World) -> None:
    """The events topic forgets what every group has read."""
    for number, log in enumerate(world.broker.topic("events")):
        log.drop_before(world.groups["assemble"].committed.get(number, 0))


def marker(world: World) -> None:
    """A transaction ends."""
    for log in world.broker.topic(world.rng.choice(("events", "turns"))):
        log.mark()


def again(world: World) -> None:
    """A publisher that has had no answer sends some records once more."""
    for number, log in enumerate(world.broker.topic("events")):
        for entry in world.rng.sample(log.written, min(3, len(log.written))):
            world.broker.append("events", number, entry.key, entry.value, entry.headers)


def broker(world: World) -> None:
    """No broker answers for a while."""
    world.broker.weather.down_until = world.loop.now + world.rng.choice((1.0, 4.0))
    world.trace(f"the broker is down until {world.broker.weather.down_until:.1f}")


def store(world: World) -> None:
    """The thread store, or the archive, fails."""
    faults = world.rng.choice((world.database.faults, world.archive.faults))
    faults.fail, faults.doubt = world.rng.choice(((1.0, 0.0), (0.3, 0.3)))


def content(world: World) -> None:
    """The content store fails."""
    world.objects.faults.fail, world.objects.faults.doubt = world.rng.choice(((1.0, 0.0), (0.3, 0.3)))


def hang(world: World) -> None:
    """A store takes longer to answer than a worker waits for what is under way, while the members change."""
    faults = world.rng.choice((world.database.faults, world.objects.faults, world.objects.faults))
    faults.hang = world.rng.choice((0.1, 0.5, 1.0))
    for pause in (1.0, 4.0, 8.0):
        change = world.rng.choice((start, start, stop, kill))
        world.loop.call_later(pause * world.rng.random(), lambda change=change: world.storming and change(world))


def full(world: World) -> None:
    """No worker's producer takes anything."""
    world.broker.weather.full = True


def disk(world: World) -> None:
    """No worker can keep the records of a run that it builds."""
    world.disk.full = True


def agent(world: World) -> None:
    """A publisher dies; another one takes its spool over."""
    living = [agent for agent in world.agents if agent.process.alive]
    if living:
        found = world.rng.choice(living)
        found.process.fuse = world.rng.randrange(100)
        world.trace(f"{found.process.name} will be killed in {found.process.fuse} steps")


def erase(world: World) -> None:
    """Somebody deletes a thread, at any time."""
    run = world.rng.choice(world.runs)
    if world.rng.random() < 0.3:
        world.trace(f"the thread of {run.run_id} is erased")
        thread = ThreadKey.of(run.thread_id, run.tenant)
        world.database.erase(thread)
        world.archive.erase(thread)


def calm(world: World) -> None:
    """What failed is back, and the weather changes."""
    for faults in world.stores:
        faults.mend()
    world.broker.weather = world.weather()


FAULTS: Final[Mapping[str, Callable[[World], None]]] = {
    **retention.ACTS,
    **{
        fault.__name__: fault
        for fault in (
            kill,
            start,
            stop,
            freeze,
            resume,
            compact,
            retain,
            marker,
            again,
            broker,
            store,
            content,
            hang,
            full,
            disk,
            agent,
            erase,
            calm,
        )
    },
}


async def storm(world: World) -> None:
    """Faults, for as long as the agents publish."""
    world.storming = True
    until = world.loop.now + world.seconds
    while world.loop.now < until:
        await asyncio.sleep(world.rng.expovariate(1.5))
        name = world.rng.choice((*world.scenario.faults, "again"))
        FAULTS[name](world)
        if not world.living():
            world.start_worker()
    world.storming = False


def _some(world: World, processes: list[Process]) -> Any:
    return world.rng.choice(processes) if processes else None
