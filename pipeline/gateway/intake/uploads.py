"""The uploads under way, and the share of the gateway's spool that each tenant may fill while the broker is away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from pipeline.gateway.problems import RETRY_AFTER, Problem
from pipeline.gateway.state import Gateway, Service, provided
from pipeline.observability import metrics as m
from pipeline.policies.pools import SPOOL
from turnmill.publish.publisher import Publisher
from turnmill.shares import Room


class Outage:
    """Counts the bytes of bodies accepted since the broker went away, for a spool of `size` bytes.

    As records, with names and numbers, they take more space, so at most half of the spool is shared out.
    """

    def __init__(self, size: int) -> None:
        self._spool = size
        self._room = self._empty()

    def take(self, publisher: Publisher, tenant: str | None, count: int) -> None:
        """Count bytes of a body. Raises Problem if the broker is away and the tenant's share of the spool is full.

        Callers without a tenant are the operator's own, and not limited.
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


class Uploads(Service):
    """Counts the uploads of a gateway, and what comes of them."""

    def __init__(self, gateway: Gateway) -> None:
        self.outage = Outage(gateway.settings.spool_bytes)
        self._metrics = gateway.metrics
        self._open = 0

    @contextmanager
    def coming_in(self) -> Iterator[None]:
        """Count an upload as in progress during the block."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def count_events(self, accepted: Mapping[str, int], refused: Mapping[str, int]) -> None:
        """Count events that came over HTTP: those accepted by dialect, those refused by reason."""
        for dialect, count in accepted.items():
            self._metrics.add(m.UPLOADED_EVENTS, count, dialect=dialect)
        for reason, count in refused.items():
            self._metrics.add(m.REFUSED_EVENTS, count, reason=reason)

    def _count(self, more: int) -> None:
        self._open += more
        self._metrics.set(m.UPLOADS, self._open)


TheUploads = Annotated[Uploads, provided(Uploads)]
