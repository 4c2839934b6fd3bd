"""Publishers whose broker is away: what they publish is read from their spool, without any Kafka."""

from pathlib import Path
from typing import Any

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from topics.agent_event import explain
from turnmill.publish.spool import Spool
from turnmill.wire.envelope import decode


def away(home: Path, **more: Any) -> Settings:
    """Settings whose broker does not answer."""
    return Settings(home=home, brokers=f"127.0.0.1:{free_ports(1)[0]}", **more)


def spooled(settings: Settings) -> list[dict[str, Any]]:
    """The envelopes that a publisher has left there, in order."""
    spool = Spool(settings.spool_folder / f"{settings.topic_prefix}.events", settings.spool_bytes)
    found = []
    while records := spool.read():
        for record in records:
            assert explain(record.value) == []
            found.append(decode(record.value))
            assert record.key.decode() == found[-1]["thread_id"]
    spool.close()
    return found
