"""The shares of tenants in a bounded resource: bytes, slots, entries. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BITS: Final = 64
LEAVES: Final = 3  # a tenant holds at most 3 times the free amount: three quarters of all if it is alone


class Shares:
    """The amount that each tenant holds; `total`: all together.

    Tenants are grouped by the bit length of their amounts, so that finding that with most, within a factor of two,
    takes as long for a million tenants as for a few. A tenant with less than half of another's amount is not found.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str | None, int] = {}
        self._by_bits: list[dict[str | None, None]] = [{} for _ in range(BITS)]
        self._top = 0  # no amount has more bits

    def add(self, tenant: str | None, amount: int) -> None:
        """Add an amount to a tenant's; a negative amount is subtracted."""
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
                self._top = max(self._top, after.bit_length())

    def copy(self) -> Shares:
        """Return a copy, to try out what would fit."""
        shares = Shares()
        for tenant, amount in self._held.items():
            shares.add(tenant, amount)
        return shares

    def held(self, tenant: str | None) -> int:
        """Return how much a tenant holds."""
        return self._held.get(tenant, 0)

    def most(self) -> str | None:
        """Return the tenant that holds most, within a factor of two; of several, the tenant in that range for longest.

        At least one tenant must hold something.
        """
        while not self._by_bits[self._top]:
            self._top -= 1
        return next(iter(self._by_bits[self._top]))

    def allows(self, tenant: str | None, amount: int, size: int) -> bool:
        """Return True if a tenant may hold `amount` more in a pool of `size`.

        A tenant that holds nothing may take any amount that fits. A tenant that holds something must leave a third of
        its amount free, so that the next tenant finds room at once: each of two tenants gets at most three sevenths,
        each of three three tenths. Network switches call this method "dynamic threshold".
        """
        free = size - self.total - amount
        held = self._held.get(tenant, 0)
        return free >= 0 and (not held or held + amount <= LEAVES * free)


@dataclass(slots=True)
class Room:
    """A pool of `size` bytes that tenants share."""

    size: int
    shares: Shares = field(default_factory=Shares)

    def take(self, tenant: str | None, amount: int) -> bool:
        """Take bytes for a tenant. Return False, and take none, if that exceeds its share."""
        if not self.shares.allows(tenant, amount, self.size):
            return False
        self.shares.add(tenant, amount)
        return True

    def give(self, tenant: str | None, amount: int) -> None:
        """Return bytes to the pool."""
        self.shares.add(tenant, -amount)
