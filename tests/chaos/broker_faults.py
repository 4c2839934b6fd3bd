"""Brokers die, all of them at once, or can't be reached; the state topic is lost."""

import asyncio

from pipeline.kafka.admin import apply_topics
from tests.chaos.scene import Scene
from topics.catalog import STATE


async def leader_killed(scene: Scene) -> None:
    await scene.start()
    scene.publish()
    await scene.published(0.3)
    leader = await scene.brokers.leader_of_most(scene.settings)
    scene.brokers.kill(leader)
    await asyncio.sleep(8)
    await asyncio.to_thread(scene.brokers.restart, leader)


async def all_down(scene: Scene, seconds: float = 60) -> None:
    await scene.start()
    scene.publish()
    await scene.published(0.4)
    everyone = range(len(scene.brokers.cluster.nodes))
    scene.brokers.kill(*everyone)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(scene.brokers.restart, *everyone)


async def cut_off(scene: Scene) -> None:
    """Packets vanish (seeds 1 and 2), or connections are refused (seed 3)."""
    await scene.start(2)
    lonely = scene.worker(brokers=scene.brokers.proxied).start()
    await scene.ready(lonely)
    scene.publish()
    await scene.published(0.3)
    for proxy in scene.brokers.proxies:
        proxy.cut, proxy.refuse = scene.seed != 3, scene.seed == 3
        if proxy.refuse:
            proxy.reset()
    try:
        await asyncio.sleep(scene.settings.session_timeout + 6)
    finally:
        for proxy in scene.brokers.proxies:
            proxy.cut = proxy.refuse = False
    scene.mended()
    await asyncio.sleep(4)


async def state_lost(scene: Scene) -> None:
    """While the workers live on; with seed 2 one of them is killed, too, and nothing was spilled: what had been would
    be lost with the topic.
    """
    if scene.seed == 2:
        scene.settings = scene.settings.model_copy(update={"spill_after": 600.0})
    await scene.start()
    scene.publish()
    await scene.published(0.4)
    await scene.brokers.delete_topics(scene.settings, STATE.full_name(scene.settings.topic_prefix))
    await apply_topics(scene.settings)
    if scene.seed == 2:
        scene.crew[0].kill()
        scene.crew[0].start()
