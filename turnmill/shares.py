"""The shares of tenants in something bounded: bytes, slots, entries. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BITS: Final = 64
LEAVES: Final = 3  # a tenant holds at most so many times what it leaves free: three quarters where it is alone


class Shares:
    """The amount that each tenant holds; `total`: all together.

    Tenants are kept by the bits of their amounts: to find who holds most, within a factor of two, takes as long for a
    million of them as for one. So who holds less than half as much as another is never asked to make room.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str | None, int] = {}
        self._by_bits: list[dict[str | None, None]] = [{} for _ in range(BITS)]

    def add(self, tenant: str | None, amount: int) -> None:
        """Add an amount to a tenant's; a negative one is taken away."""
        before = self._held.get(tenant, 0)
        after = before + amount
        self.total += amount
        if after:
            self._held[tenant] = after
        else:
            self._held.pop(tenant, None)
        if before.bit_length() != after.bit_length():
            self._by_bits[before.bit_length()].pop(tenant, None)
            if after:
                self._by_bits[after.bit_length()][tenant] = None

    def copy(self) -> Shares:
        """Return the same amounts, to try out what would fit."""
        found = Shares()
        for tenant, amount in self._held.items():
            found.add(tenant, amount)
        return found

    def held(self, tenant: str | None) -> int:
        """Return how much a tenant holds."""
        return self._held.get(tenant, 0)

    def most(self) -> str | None:
        """Return the tenant that holds most; of several the one that has held as much for longest.

        Something must be held.
        """
        return next(tenant for tenants in reversed(self._by_bits) for tenant in tenants)

    def allows(self, tenant: str | None, amount: int, size: int) -> bool:
        """Return True if a tenant may hold `amount` more in a pool of `size`.

        A tenant that holds nothing may take whatever fits. One that holds something must leave a third of its amount
        free, so that the next tenant finds room at once: each of two gets at most three sevenths, of three three
        tenths. Among switches of networks this is known as "dynamic threshold".
        """
        free = size - self.total - amount
        held = self._held.get(tenant, 0)
        return free >= 0 and (not held or held + amount <= LEAVES * free)


@dataclass(slots=True)
class Room:
    """A pool of `size` bytes from which callers take what they may."""

    size: int
    shares: Shares = field(default_factory=Shares)

    def take(self, tenant: str | None, amount: int) -> bool:
        """Take bytes for a tenant. Return False, and take none, where it has its share."""
        if not self.shares.allows(tenant, amount, self.size):
            return False
        self.shares.add(tenant, amount)
        return True

    def give(self, tenant: str | None, amount: int) -> None:
        """Give bytes back."""
        self.shares.add(tenant, -amount)
