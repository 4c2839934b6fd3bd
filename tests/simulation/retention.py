"""Threads that expire, are held and are erased while all else goes on: a day of retention is a second here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from pipeline.observability.audit import audit
from pipeline.stores.database.errors import HeldThread, StoreError
from pipeline.stores.keeping import expiry, holding
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.keeping.tenant_erasure import erase_tenant
from pipeline.worker.sinks import housekeeping
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

if TYPE_CHECKING:
    from tests.simulation.world import World

DAY_MS: Final = 1000
AGAIN_MS: Final = 3000
TENANT: Final = "globex"  # which is erased as a whole, where one is
ROUNDS: Final = 40.0  # seconds in which all that is to go has gone

Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Orders:
    """What operators were told to do: `open` is not done yet. `audit`: the lines of the audit log."""

    open: list[tuple[str, Work]] = field(default_factory=list)
    erased: set[ThreadKey] = field(default_factory=set)
    tenants: set[str] = field(default_factory=set)
    audit: list[str] = field(default_factory=list)


def patch(world: World, patch: pytest.MonkeyPatch) -> None:
    """Put short times in place of long ones, and a real archive over simulated objects in that of a simulated one."""
    patch.setattr("pipeline.policies.retention.DAY_MS", DAY_MS)
    patch.setattr(expiry, "RECHECK_MS", AGAIN_MS)
    for name, value in {"PAUSE": 0.2, "INTERVAL": 1.0, "RETRY_DELAY": 1.0, "LEASE_MS": 4000}.items():
        patch.setattr(housekeeping, f"EXPIRY_{name}", value)
    patch.setattr("pipeline.stores.archive.parquet.Objects", lambda: world.objects)
    lines = world.orders.audit
    patch.setattr(audit, "info", lambda message, *values, **_: lines.append(message % values))  # logs are off here


# ---- what operators do in a storm


def hold(world: World) -> None:
    """A thread is held."""
    key = _some_thread(world)

    async def held() -> None:
        with suppress(CallerError):  # it is erased
            await holding.hold_thread(await world.database.open(""), key)

    _order(world, f"hold {key.text}", held)


def release(world: World) -> None:
    """A thread that is held is held no more."""
    held = sorted(world.database.held_since, key=lambda key: key.text)
    if held:
        key = world.rng.choice(held)

        async def released() -> None:
            await holding.release_thread(await world.database.open(""), key)

        _order(world, f"release {key.text}", released)


def delete(world: World) -> None:
    """A thread is deleted."""
    key = _some_thread(world)

    async def done() -> None:
        with suppress(HeldThread):
            await erase(world.scenario.settings, await world.database.open(""), key, "an operator")
            world.orders.erased.add(key)

    _order(world, f"erase {key.text}", done)


def tenant(world: World) -> None:
    """A tenant goes, while its agents publish."""
    _order(world, f"erase the tenant {TENANT}", lambda: _tenant_erased(world))


def deliver(world: World) -> None:
    """Turns are delivered once more: of long ago, and in revisions that others have taken the place of."""
    for number, log in enumerate(world.broker.topic("turns")):
        for entry in world.rng.sample(log.written, min(3, len(log.written))):
            world.broker.append("turns", number, entry.key, entry.value, entry.headers)


ACTS: Final[Mapping[str, Callable[[World], None]]] = {
    "hold": hold,
    "release": release,
    "delete": delete,
    "tenant": tenant,
    "deliver": deliver,
}


async def carried_out(world: World) -> None:
    """All orders are carried out at last; a tenant's once more, now that its agents are silent. Then all that ever was
    on a topic comes again.
    """
    if any(name.endswith(TENANT) for name, _ in world.orders.open):
        world.orders.tenants.add(TENANT)
        _order(world, f"erase the tenant {TENANT}", lambda: _tenant_erased(world), safe=True)
    while world.orders.open:
        await asyncio.gather(*(work() for _, work in list(world.orders.open)))
    await passed(world)
    for name in ("events", "turns"):
        for number, log in enumerate(world.broker.topic(name)):
            for entry in list(log.written):
                world.broker.append(name, number, entry.key, entry.value, entry.headers)
    await world.rest()


async def passed(world: World) -> None:
    """What is to go has the time to."""
    world.broker.weather.pace = 0.2
    await asyncio.sleep(ROUNDS)
    world.broker.weather.pace = 2.0


async def _tenant_erased(world: World) -> None:
    await erase_tenant(world.scenario.settings, await world.database.open(""), TENANT, "an operator", lambda _: None)


def _some_thread(world: World) -> ThreadKey:
    run = world.rng.choice(world.runs)
    return ThreadKey.of(run.thread_id, run.tenant)


def _order(world: World, name: str, work: Callable[[], Coroutine[Any, Any, None]], *, safe: bool = False) -> None:
    """An operator does it in a process of its own, which may be killed; and again until it is done."""
    process = world.process("operator")
    process.fuse = None if safe else world.rng.choice((None, world.rng.randrange(100)))
    world.trace(f"{process.name}: {name}")

    async def done() -> None:
        while True:
            try:
                await work()
                break
            except StoreError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(1)
        if order in world.orders.open:
            world.orders.open.remove(order)

    order = name, done
    world.orders.open.append(order)
    process.start(done())
