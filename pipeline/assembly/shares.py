"""What the tenants hold of something that they share: where it is full, the one that holds most makes room."""

from __future__ import annotations

from typing import Final

BITS: Final = 64


class Shares:
    """How much each tenant holds; `total`: all together.

    Tenants are kept by the bits of their amounts: to find who holds most, within a factor of two, takes as long for a
    million of them as for one. So who holds less than half as much as another is never asked to make room.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str | None, int] = {}
        self._by_bits: list[dict[str | None, None]] = [{} for _ in range(BITS)]

    def add(self, tenant: str | None, amount: int) -> None:
        """A tenant holds so much more; less, where it is negative."""
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

    def most(self) -> str | None:
        """The tenant that holds most; of several the one that has held as much for longest. Something must be held."""
        return next(tenant for tenants in reversed(self._by_bits) for tenant in tenants)
