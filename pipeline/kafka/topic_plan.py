"""Plan the changes that bring the broker's topics in line with the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from topics.catalog import Topic

DEFAULT_REPLICATION = 3
Action = Literal["create", "configure", "grow", "left"]


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the broker reports it.

    `leader` is a broker's id, None without one; `begin` and `end` are offsets, None if there is no leader to ask.
    """

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One topic as the broker reports it.

    `config`: the values in force, with the broker's defaults; `own`: those that were set for this topic.
    """

    name: str
    partitions: tuple[Partition, ...]
    config: Mapping[str, str]
    own: Mapping[str, str]

    @property
    def replication(self) -> int:
        """Replicas of its first partition."""
        return len(self.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One topic as specified by the catalog and the settings."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `left`: it remains, since Kafka can't change it or `grow` is off; `detail`: text for users."""

    topic: str
    action: Action
    detail: str


def wanted(
    catalog: Iterable[Topic],
    prefix: str,
    partitions: int,
    replication: int | None,
    brokers: int,
    retention_ms: Mapping[str, int],
) -> list[Wanted]:
    """Return the catalog under `prefix`.

    `replication` None: 3, or the number of brokers if there are fewer. `retention_ms`: of topics for which it differs
    from the catalog.
    """
    copies = replication or min(DEFAULT_REPLICATION, brokers)
    return [
        Wanted(
            topic.full_name(prefix),
            partitions,
            copies,
            replace(topic, retention_ms=retention_ms.get(topic.name, topic.retention_ms)).config(),
        )
        for topic in catalog
    ]


def plan(wants: Sequence[Wanted], found: Mapping[str, Found], *, grow: bool) -> list[Change]:
    """Return every difference, in the order of `wants`. No change ever deletes or shrinks a topic."""
    changes = []
    for want in wants:
        topic = found.get(want.name)
        if topic is None:
            detail = f"{_counted(want.partitions, 'partition')}, {_counted(want.replication, 'replica')}"
            changes.append(Change(want.name, "create", detail))
            continue
        differing = {k: v for k, v in want.config.items() if topic.config.get(k) != v}
        if differing:
            detail = ", ".join(f"{k}: {topic.config.get(k)} -> {v}" for k, v in sorted(differing.items()))
            changes.append(Change(want.name, "configure", detail))
        changes += _partitions(want, len(topic.partitions), grow)
        if topic.replication != want.replication:
            detail = (
                f"{_counted(topic.replication, 'replica')}, not {want.replication}: moving data is left to Kafka's own "
                "kafka-reassign-partitions"
            )
            changes.append(Change(want.name, "left", detail))
    return changes


def _partitions(want: Wanted, there: int, grow: bool) -> list[Change]:  # noqa: FBT001
    if there < want.partitions and grow:
        return [Change(want.name, "grow", f"{there} -> {want.partitions} partitions")]
    if there < want.partitions:
        detail = (
            f"{_counted(there, 'partition')}, not {want.partitions}: `turnmill topics apply --grow` adds them; "
            "do it when no run is open, for a thread's later events then go to another partition"
        )
        return [Change(want.name, "left", detail)]
    if there > want.partitions:
        return [
            Change(want.name, "left", f"{_counted(there, 'partition')}, not {want.partitions}: Kafka can't remove any")
        ]
    return []


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
