"""Plan the changes that bring the broker's topics in line with the catalog. Pure."""

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

    `config`: the values in force, with the broker's defaults, none from a broker that does not tell them; `set_here`:
    those that were set for this topic.
    """

    name: str
    partitions: tuple[Partition, ...]
    config: Mapping[str, str]
    set_here: Mapping[str, str]

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
    kept = [replace(topic, retention_ms=retention_ms.get(topic.name, topic.retention_ms)) for topic in catalog]
    return [Wanted(topic.full_name(prefix), partitions, copies, topic.config()) for topic in kept]


def plan(wants: Sequence[Wanted], topics: Mapping[str, Found], *, grow: bool) -> list[Change]:
    """Return every difference, in the order of `wants`. No change ever deletes or shrinks a topic."""
    changes = []
    for want in wants:
        topic = topics.get(want.name)
        if topic is None:
            detail = f"{_counted(want.partitions, 'partition')}, {_counted(want.replication, 'replica')}"
            changes.append(Change(want.name, "create", detail))
            continue
        differing = {k: v for k, v in want.config.items() if topic.config and topic.config.get(k) != v}
        if differing:
            detail = ", ".join(f"{k}: {topic.config.get(k)} -> {v}" for k, v in sorted(differing.items()))
            changes.append(Change(want.name, "configure", detail))
        changes += _partitions(want, len(topic.partitions), grow)
        if topic.replication != want.replication:
            counts = f"{_counted(topic.replication, 'replica')}, not {want.replication}"
            detail = f"{counts}: moving data is left to Kafka's own kafka-reassign-partitions"
            changes.append(Change(want.name, "left", detail))
    return changes


def _partitions(want: Wanted, there: int, grow: bool) -> list[Change]:  # noqa: FBT001
    if there < want.partitions and grow:
        return [Change(want.name, "grow", f"{there} -> {want.partitions} partitions")]
    counts = f"{_counted(there, 'partition')}, not {want.partitions}"
    if there < want.partitions:
        when = "do it when no run is open, for a thread's later events then go to another partition"
        return [Change(want.name, "left", f"{counts}: `turnmill topics apply --grow` adds them; {when}")]
    return [Change(want.name, "left", f"{counts}: Kafka can't remove any")] if there > want.partitions else []


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
