"""Three brokers, each also reachable through a proxy: what a worker that must be cut off connects to."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient

from pipeline.devbroker import local, processes
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.devbroker.properties import render, server_properties
from pipeline.settings import Settings
from tests.chaos.proxy import Proxy
from turnmill.kafka.client import client_options

HOST = "127.0.0.1"
STARTED: Final = 240.0  # seconds: patience with a busy machine


@dataclass(frozen=True, slots=True)
class Brokers:
    """A cluster; `proxies` stand before its second listeners, one for each broker, where it has these."""

    cluster: Cluster
    proxies: list[Proxy] = field(default_factory=list)

    @property
    def direct(self) -> str:
        return self.cluster.bootstrap

    @property
    def proxied(self) -> str:
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.proxies)

    def kill(self, *indices: int) -> None:
        """As a power cut would."""
        for index in indices:
            self.cluster.kill(index)

    def restart(self, *indices: int) -> None:
        """Start what was killed; returns when all see each other."""
        for index in indices:
            self.cluster.launcher.start(self.cluster.nodes[index])
        self.cluster.wait(STARTED)

    async def leader_of_most(self, settings: Settings) -> int:
        """Index of the broker that leads most partitions of the topics of `settings`."""
        client = AIOKafkaAdminClient(**client_options(settings))
        await client.start()
        try:
            mine = [name for name in await client.list_topics() if name.startswith(f"{settings.topic_prefix}.")]
            leaders = [row["leader"] for topic in await client.describe_topics(mine) for row in topic["partitions"]]
        finally:
            await client.close()
        ids = [node.id for node in self.cluster.nodes]
        return max(range(len(ids)), key=lambda index: leaders.count(ids[index]))

    async def delete_topics(self, settings: Settings, *names: str) -> None:
        """Those that are called so, by default all of the prefix."""
        client = AIOKafkaAdminClient(**client_options(settings))
        await client.start()
        try:
            mine = [name for name in await client.list_topics() if name.startswith(f"{settings.topic_prefix}.")]
            await client.delete_topics(list(names) or mine)
            deadline = time.monotonic() + 20
            while set(names or mine) & set(await client.list_topics()) and time.monotonic() < deadline:
                pass
        finally:
            await client.close()


@asynccontextmanager
async def three_brokers(home: Path, cache: Path) -> AsyncIterator[Brokers]:
    """A cluster of three with proxies, for as long as the block lasts."""
    home.mkdir(parents=True, exist_ok=True)
    settings = Settings(home=home, cache=cache, brokers=f"{HOST}:{free_ports(1)[0]}")
    with local.running(settings, brokers=3) as cluster:
        ports = free_ports(6)
        processes.stop(cluster.nodes)
        proxies = []
        for number, node in enumerate(cluster.nodes):
            listener, outside = ports[2 * number], ports[2 * number + 1]
            more = {
                "listeners": f"PROXIED://{HOST}:{listener}",
                "advertised.listeners": f"PROXIED://{HOST}:{outside}",
                "listener.security.protocol.map": "PROXIED:PLAINTEXT",
            }
            node.properties.write_text(render(server_properties(node, cluster.nodes, more)))
            cluster.launcher.start(node)
            proxies.append(await Proxy(outside, target=listener).start())
        cluster.wait(STARTED)
        try:
            yield Brokers(cluster, proxies)
        finally:
            for proxy in proxies:
                await proxy.stop()
