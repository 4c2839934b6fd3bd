"""A consumer group: members come, go silent and go; each change is a new generation, and older ones may not commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiokafka.errors import IllegalGenerationError

from tests.simulation.broker import Broker
from tests.simulation.loop import Process

SESSION: Final = 4.0  # seconds of silence after which a member is out
HEARTBEAT: Final = 1.5


@dataclass(slots=True, eq=False)
class Member:
    """One consumer of a group. `joined`: it has asked for the next generation."""

    name: str
    process: Process
    heard: float
    joined: asyncio.Future[tuple[int, list[int]]] | None = None


@dataclass(slots=True)
class Group:
    """The coordinator's side."""

    name: str
    broker: Broker
    members: list[Member] = field(default_factory=list)
    generation: int = 0
    owners: dict[int, Member] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    rebalancing: bool = False

    async def join(self, member: Member) -> tuple[int, list[int]]:
        """-> generation and partitions, once all others have joined, or are out."""
        await asyncio.sleep(self.broker.delay())
        member.heard = self.broker.loop.now
        member.joined = joined = self.broker.loop.create_future()
        if member not in self.members:
            self.members.append(member)
        self.rebalancing = True
        self.look()
        return await joined

    def leave(self, member: Member) -> None:
        """It stops."""
        self._remove(member)
        self.look()

    def heartbeat(self, member: Member) -> bool:
        """Whether the member may go on; else it has to join again."""
        member.heard = self.broker.loop.now
        return member in self.members and not self.rebalancing

    def commit(self, member: Member, generation: int, offsets: dict[int, int]) -> None:
        """Raises IllegalGenerationError for one that is not, or no more, a member of this generation."""
        if member not in self.members or generation != self.generation:
            raise IllegalGenerationError
        member.heard = self.broker.loop.now
        for partition, offset in offsets.items():
            if self.owners.get(partition) is not member:
                raise IllegalGenerationError
            self.committed[partition] = offset

    def look(self) -> None:
        """Remove the silent; begin the next generation once all others have joined."""
        now = self.broker.loop.now
        for member in [member for member in self.members if now - member.heard > SESSION]:
            if member.joined is None or not member.process.alive:
                self.broker.trace(f"{self.name}: {member.name} is out")
                self._remove(member)
        if self.rebalancing and self.members and all(member.joined is not None for member in self.members):
            self._begin()

    def _remove(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
            self.rebalancing = True

    def _begin(self) -> None:
        self.generation += 1
        self.rebalancing = False
        partitions = list(range(self.broker.partitions))
        self.broker.rng.shuffle(partitions)
        mine: dict[str, list[int]] = {member.name: [] for member in self.members}
        for number, partition in enumerate(partitions):
            member = self.members[number % len(self.members)]
            self.owners[partition] = member
            mine[member.name].append(partition)
        shown = ", ".join(f"{name} {sorted(some)}" for name, some in mine.items())
        self.broker.trace(f"{self.name}: generation {self.generation}: {shown}")
        for member in self.members:
            joined, member.joined = member.joined, None
            member.heard = self.broker.loop.now
            if joined is not None and not joined.done():
                joined.set_result((self.generation, sorted(mine[member.name])))
