"""Records that tenants publish while the broker is away, in the gateway's spool, of which each has a share."""

from __future__ import annotations

from pipeline.gateway.problems import RETRY_AFTER, Problem
from pipeline.policies.pools import SPOOL
from turnmill.publisher import Publisher
from turnmill.shares import Room


class Outage:
    """Bytes of bodies that were taken since the broker went away, in a spool of `size` bytes.

    As records they take more, with names and numbers: so half of the spool is dealt out.
    """

    def __init__(self, size: int) -> None:
        self._spool = size
        self._room = self._empty()

    def take(self, publisher: Publisher, tenant: str | None, count: int) -> None:
        """Count bytes of a body. Raises Problem where the broker is away, and the tenant has its share of the spool.

        Callers without a tenant are the operator's own.
        """
        if publisher.delivery.trouble is None:
            if self._room.shares.total:
                self._room = self._empty()
        elif tenant is not None and not self._room.take(tenant, count):
            raise Problem(
                "unavailable",
                "the broker is away, and the spool holds as much of this tenant's as it may",
                headers={"Retry-After": str(RETRY_AFTER)},
            )

    def _empty(self) -> Room:
        return Room(min(SPOOL.size, self._spool // 2))
