"""A consumer group: members come, go silent and go; each change is a new generation, and older ones may not commit."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiokafka.errors import IllegalGenerationError

from tests.simulation.broker import Broker, over
from tests.simulation.loop import Process

SESSION: Final = 4.0  # seconds of silence after which a member is out
HEARTBEAT: Final = 1.5  # seconds after which a member has heard of a rebalance


@dataclass(slots=True, eq=False)
class Member:
    """One consumer of a group. `joined`: it has asked for the next generation; `called`: it waits to hear of one;
    `busy_since`: it has heard, and has not asked yet.
    """

    name: str
    process: Process
    busy_since: float | None = None
    joined: asyncio.Future[tuple[int, list[int]]] | None = None
    called: asyncio.Future[None] | None = None

    def silent(self, now: float) -> bool:
        """Whether it has said nothing for a whole session."""
        times = (self.busy_since, self.process.silent_since)
        return any(since is not None and now - since > SESSION for since in times)


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
        member.busy_since = None
        member.joined = joined = self.broker.loop.create_future()
        if member not in self.members:
            self.members.append(member)
        self._rebalance()
        self.look()
        return await joined

    def leave(self, member: Member) -> None:
        """It stops."""
        self._remove(member)
        self.look()

    async def settled(self, member: Member) -> None:
        """Until the member has to join again, or is let go by `over(member.called)`."""
        if member in self.members and not self.rebalancing:
            member.called = self.broker.loop.create_future()
            await member.called
        member.busy_since = self.broker.loop.now

    def commit(self, member: Member, generation: int, offsets: dict[int, int]) -> None:
        """Raises IllegalGenerationError for one that is not, or no more, a member of this generation."""
        if member not in self.members or generation != self.generation:
            raise IllegalGenerationError
        for partition, offset in offsets.items():
            if self.owners.get(partition) is not member:
                raise IllegalGenerationError
            self.committed[partition] = offset

    def look(self) -> None:
        """Remove the silent; begin the next generation once all others have joined."""
        now = self.broker.loop.now
        for member in [member for member in self.members if member.silent(now)]:
            if member.joined is None or not member.process.alive:
                self.broker.trace(f"{self.name}: {member.name} is out")
                self._remove(member)
        if self.rebalancing and self.members and all(member.joined is not None for member in self.members):
            self._begin()

    def _remove(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
            self._rebalance()
            self._call(member)

    def _rebalance(self) -> None:
        """Each member hears of it with its next heartbeat."""
        self.rebalancing = True
        for member in self.members:
            self._call(member)

    def _call(self, member: Member) -> None:
        if member.called is not None:
            self.broker.loop.later_outside(HEARTBEAT * self.broker.rng.random(), over, member.called)
            member.called = None

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
            if joined is not None and not joined.done():
                joined.set_result((self.generation, sorted(mine[member.name])))
