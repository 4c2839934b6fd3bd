"""The store is away, slow, has no disk left, or fails over to its standby."""

import asyncio

from tests.chaos.scene import Scene
from tests.chaos.stores import Replicated


async def store_down(scene: Scene, seconds: float = 120) -> None:
    await scene.start()
    scene.publish()
    await scene.published(0.3)
    await scene.store.down()
    scene.crew[0].kill()  # one that has to open the store while it is away
    scene.crew[0].start()
    await asyncio.sleep(seconds)
    await scene.store.up()


async def store_slow(scene: Scene) -> None:
    await scene.start()
    await scene.store.slow()
    scene.publish()
    await scene.all_published()
    await asyncio.sleep(10)
    await scene.store.quick()


async def disk_full(scene: Scene) -> None:
    """To the last byte; with seed 3 so that the write-ahead log may grow a little, and its checkpoint can't."""
    await scene.start()
    scene.publish()
    await scene.published(0.3)
    disk = scene.store.disk()
    disk.fill(leave=300_000 if scene.seed == 3 else 0)
    await asyncio.sleep(15)
    assert scene.seed == 3 or disk.free() < 65_536, "the disk was not full"
    disk.clear()
    if not await scene.store.running():
        await scene.store.up()  # Postgres gives up when its log can't be written; whoever makes room starts it
        scene.note = "Postgres had stopped, and was started"


async def failed_over(scene: Scene) -> None:
    """The address leads to the standby for 5 s, and back; then the primary dies, and the standby is promoted."""
    assert isinstance(scene.store, Replicated)
    primary, standby = scene.store.server, scene.store.standby
    await scene.start()
    scene.publish(times=2)
    await scene.published(0.2)
    standby.lead(standby)
    primary.proxy.reset()
    await asyncio.sleep(5)
    standby.lead(primary)  # what is connected to the standby stays so
    await scene.published(0.7)
    primary.kill()
    standby.lead(standby)
    await asyncio.sleep(5)
    await standby.promote()
