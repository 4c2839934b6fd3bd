"""The events topic in tiered storage: what has left the broker's disk is read, and replayed, from where it went."""

import asyncio
from pathlib import Path

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics, topic_changes
from pipeline.settings import Settings
from tests.support.commands import turnmill
from tests.support.fleet import expected, fleet
from tests.support.maven_jars import maven_jars
from tests.support.places import CACHE
from tests.support.topic_records import configure, publish
from tests.support.waiting import until
from tests.support.workers import stored
from topics.catalog import EVENTS

STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
ROUNDS = 3  # each closes the segment before


def properties(folder: Path) -> dict[str, str]:
    jars = maven_jars(CACHE, Path(__file__).parent / "tiered" / "pom.xml", "tiered-storage")
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": STORAGE,
        "remote.log.storage.manager.class.path": f"{jars}/*",
        "rsm.config.dir": str(folder),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }


async def test_what_is_only_in_the_tier_is_replayed(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    settings = Settings(
        home=tmp_path,
        cache=CACHE,
        brokers=f"127.0.0.1:{free_ports(1)[0]}",
        partitions=2,
        store=f"sqlite:///{tmp_path}/store.db",
    )
    name = EVENTS.full_name(settings.topic_prefix)
    with local.running(settings, extra=properties(tier)) as cluster:
        await apply_topics(settings)
        tiered = {"remote.storage.enable": "true", "local.retention.ms": "1", "segment.ms": "1000"}
        await configure(settings, EVENTS, tiered)  # and nothing else
        await apply_topics(settings)
        runs = fleet(71, 30)
        for number in range(ROUNDS):
            some = [(run.key, value) for run in runs[number::ROUNDS] for value in run.values()]
            await publish(settings, EVENTS, some)
            await asyncio.sleep(1.2)
        await publish(settings, EVENTS, [(run.key, value) for run in runs[:6] for value in run.values()])  # the same
        data = cluster.nodes[0].folder / "data"

        async def only_there() -> bool:
            return not any((data / f"{name}-{number}" / f"{0:020}.log").exists() for number in range(2))

        await until(only_there, lambda: str(sorted(data.glob(f"{name}-*/*"))))
        assert list(tier.rglob("*.log")), "the segments are in the tier"
        assert await topic_changes(settings) == [], "what others set on a topic stays"
        done = await turnmill(settings, "replay")
        assert done.returncode == 0, done.stderr
        assert await stored(settings) == expected(runs)
