"""A connected admin client, and its description of cluster and partitions.

Functions raise BrokerError, or CallerError if brokers refuse us because of the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from pipeline.kafka.topic_plan import Partition
from turnmill.ending import stopped
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options
from turnmill.kafka.client_log import below_warning, client_log
from turnmill.kafka.refusal import refusal
from turnmill.settings import BrokerSettings

CONNECT_TIMEOUT, CALL_TIMEOUT = 10.0, 30.0  # seconds: until a broker answers, and for the rest of a call
REQUEST_TIMEOUT = 5.0  # seconds for one request


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster behind TURNMILL_BROKERS: its id, and its brokers as (id, host:port)."""

    cluster_id: str
    brokers: tuple[tuple[int, str], ...]


@asynccontextmanager
async def connected(settings: BrokerSettings) -> AsyncIterator[Any]:
    """Yield a started admin client. Failures within the block become errors with advice."""
    client = AIOKafkaAdminClient(**client_options(settings), request_timeout_ms=int(REQUEST_TIMEOUT * 1000))
    try:
        try:
            with client_log(below_warning):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            if reason := await refusal(settings):
                raise reason from error
            raise BrokerError(
                f"no Kafka broker answers at {settings.brokers}: `turnmill up` starts one for development, "
                "or set TURNMILL_BROKERS to the address of yours"
            ) from error
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                yield client
        except (KafkaError, OSError, TimeoutError) as error:
            if reason := await refusal(settings):
                raise reason from error
            what = str(error) or f"no answer within {CALL_TIMEOUT:.0f} s"
            raise BrokerError(f"Kafka at {settings.brokers}: {what}; see the broker's log") from error
    finally:
        await stopped(client.close())


async def cluster_info(settings: BrokerSettings) -> ClusterInfo:
    """Return the cluster at TURNMILL_BROKERS."""
    async with connected(settings) as client:
        return await cluster_of(client)


async def cluster_of(client: Any) -> ClusterInfo:
    """Return the cluster of a connected client."""
    described = await client.describe_cluster()
    brokers = sorted((b["node_id"], f"{b['host']}:{b['port']}") for b in described["brokers"])
    return ClusterInfo(described["cluster_id"], tuple(brokers))


async def partitions_of(client: Any, names: Sequence[str]) -> dict[str, list[Partition]]:
    """Return the partitions of each topic, in order, without offsets; missing topics are left out."""
    found: dict[str, list[Partition]] = {}
    for topic in await client.describe_topics(list(names)):
        if topic["error_code"] == 0:
            rows = sorted(topic["partitions"], key=lambda row: row["partition"])
            found[topic["topic"]] = [
                Partition(
                    row["partition"],
                    row["leader"] if row["leader"] >= 0 else None,
                    tuple(row["replicas"]),
                    tuple(row["isr"]),
                )
                for row in rows
            ]
    return found
