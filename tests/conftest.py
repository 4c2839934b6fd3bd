"""Fixtures for all tests. Nothing of the developer's own THREADMILL_* reaches them."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from threadmill.settings import PREFIX

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "threadmill"
EXISTING_POSTGRES = os.environ.get("THREADMILL_TEST_POSTGRES")


@pytest.fixture(scope="session")
def existing_postgres() -> str | None:
    """The address of a server to test against; by default the tests start one."""
    return EXISTING_POSTGRES


def pytest_configure() -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    # A slow machine is no failure.
    hypothesis_settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    hypothesis_settings.load_profile("ours")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real broker of its own, for the whole session; it dies with the session."""
    home = tmp_path_factory.mktemp("broker")
    settings = Settings(home=home, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    with local.running(settings) as cluster:
        yield cluster


@pytest.fixture
async def settings(broker: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Settings]:
    """Settings of one test: the session's broker, topics and a home of its own, free ports. Its topics go with it."""
    prefix = f"{re.sub('[^A-Za-z0-9]+', '-', request.node.name)[:40]}-{uuid.uuid4().hex[:8]}"
    yield Settings(home=tmp_path, cache=CACHE, brokers=broker.bootstrap, topic_prefix=prefix, port=0)
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        mine = [name for name in await client.list_topics() if name.startswith(f"{prefix}.")]
        if mine:
            await client.delete_topics(mine)
    finally:
        await client.close()


@pytest.fixture
async def applied_settings(settings: Settings) -> Settings:
    """Settings of one test whose topics exist, with 12 partitions each."""
    await apply_topics(settings)
    return settings
