"""The slots in which the store is searched and threads are read, of which each tenant has a share."""

from __future__ import annotations

from typing import Annotated

from pipeline.gateway.state import Service, provided
from pipeline.policies.pools import READS, SEARCHES
from pipeline.policies.slots import Slots


class StoreSlots(Service):
    """`searches`: for searches, and lists that search or sift; `reads`: for whole threads in memory."""

    def __init__(self) -> None:
        self.searches = Slots(SEARCHES.size)
        self.reads = Slots(READS.size)


TheSlots = Annotated[StoreSlots, provided(StoreSlots)]
