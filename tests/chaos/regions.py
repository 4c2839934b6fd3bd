"""A region fails: agents and workers go on in the second, to which MirrorMaker 2 has copied; and back again."""

import asyncio
from contextlib import ExitStack

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.devbroker.processes import watchdog
from pipeline.kafka.admin import apply_topics
from pipeline.kafka.reading import records_of
from pipeline.settings import Settings
from tests.chaos.mirror import Mirror
from tests.chaos.scene import Publishing, Scene
from tests.support.gateways import client, running
from tests.support.waiting import until
from topics.catalog import EVENTS


async def moved(scene: Scene) -> None:
    """Kill all of the first region in mid-stream; go on in the second; copy what it lacks; move back."""
    first = scene.settings
    with ExitStack() as stack:
        group = stack.enter_context(watchdog())
        second = await _second(scene, stack)
        mirror = Mirror(first, "first", second, scene.folder / "mirror", group)
        stack.callback(mirror.kill)
        await apply_topics(second)
        await mirror.start()
        await scene.start()
        # The mirror is at work once the first of the load is there.
        early = scene.load.records[:20]
        await Publishing(first, early, 1.0).task
        await _until_copied(early, second)

        whole = list(scene.load.records[20:])
        scene.publishing = before = Publishing(first, whole, 2 * scene.pace, scene.load.producers)
        await scene.published(0.35)
        mirror.kill()  # so that it is behind; and it would try to reach the first again without a pause
        await scene.published(0.4)
        scene.brokers.kill(0, 1, 2)
        before.task.cancel()
        acked = {*before.acked_at}
        confirmed = [record for place, record in enumerate(whole) if place in acked]
        left = [record for place, record in enumerate(whole) if place not in acked]
        behind = len({*confirmed} - await _records(second))

        # All go on in the second region, the agents with what the first has not confirmed.
        await _go_on(scene, second)
        last = len(left) // 3
        scene.publishing = Publishing(second, left[:-last], scene.pace, scene.load.producers)
        await scene.all_published()
        await _is_shown(left[0][0].decode(), second)

        # The first region is back: the mirror copies the rest. Then the way back, to other names again.
        await asyncio.to_thread(scene.brokers.restart, 0, 1, 2)
        await asyncio.wait([before.task])  # it may send again what the second has by now
        await mirror.start()
        await _until_copied(confirmed, second)
        mirror.kill()
        again = first.model_copy(update={"topic_prefix": f"second.{second.topic_prefix}"})
        back = Mirror(second, "second", again, scene.folder / "back", group)
        stack.callback(back.kill)
        await apply_topics(again)
        await back.start()
        await _until_copied([*early, *confirmed, *left[:-last]], again)
        back.kill()
        await _go_on(scene, again)
        scene.publishing = Publishing(again, left[-last:], scene.pace, scene.load.producers)
        await scene.all_published()
        await scene.brokers.delete_topics(first)
        assert behind, "the mirror was not behind"
        scene.note = f"the mirror was {behind} of {len(confirmed)} records behind when the first region was killed"


async def _second(scene: Scene, stack: ExitStack) -> Settings:
    """Start another cluster. -> the settings of those that use it."""
    home = scene.folder / "second"
    home.mkdir()
    brokers = f"127.0.0.1:{free_ports(1)[0]}"
    settings = Settings(home=home, cache=scene.settings.cache, brokers=brokers)
    await asyncio.to_thread(stack.enter_context, local.running(settings))
    return scene.settings.model_copy(
        update={"brokers": brokers, "topic_prefix": f"first.{scene.settings.topic_prefix}"}
    )


async def _go_on(scene: Scene, there: Settings) -> None:
    """Kill all workers, and start as many with other settings."""
    for worker in scene.crew:
        worker.end()
    scene.settings = there
    await scene.start()


async def _is_shown(thread_id: str, there: Settings) -> None:
    """Read the live stream of a thread from a gateway of this region."""
    settings = there.model_copy(update={"gateway_port": 0})
    async with running(settings) as gateway, client(gateway.url) as http:
        answer = await http.get(f"/v1/threads/{thread_id}/live", params={"follow": "false"})
        assert answer.status_code == 200, answer.text
        assert "\nid:" in answer.text or answer.text.startswith("id:"), "the gateway shows none of the thread's events"


async def _records(settings: Settings) -> set[tuple[bytes | None, bytes | None]]:
    return {(record.key, record.value) async for record in records_of(settings, EVENTS)}


async def _until_copied(records: list[tuple[bytes | None, bytes]], there: Settings) -> None:
    """Wait until the events topic has all of these."""

    async def all_there() -> bool:
        return {*records} <= await _records(there)

    await until(all_there)
