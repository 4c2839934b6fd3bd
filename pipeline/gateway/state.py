"""The state that all routes share: settings, metrics, connections to broker and store, and the services of the parts.

Connections are made when they are first needed, so the gateway starts, and answers with the reason, while the broker
or the store is away. In slots, of which tenants have shares, the store is searched, threads are read, and calls run in
worker threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, Self, TypeVar, get_type_hints

from fastapi import Depends, Request

from pipeline.gateway.problems import Problem
from pipeline.observability.metrics import Metrics
from pipeline.policies.pools import ASIDE, READS, SEARCHES
from pipeline.policies.slots import Slots
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads
from topics.thread_key import ThreadKey
from turnmill.control.record import TOPIC as CONTROL
from turnmill.publish.publisher import Publisher
from turnmill.wire.feedback_record import TOPIC as FEEDBACK

OpenStore = Callable[[], Awaitable[ThreadStore]]

MAX_TENANTS_SHOWN: Final = 20  # in an error, of the tenants that have the thread
SMALL_BYTES: Final = 16_384  # bodies up to this size are parsed in the event loop
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Service:
    """The memory or the background task of a part. A gateway makes at most one object of each class.

    Its constructor takes any of: the gateway, Settings, Metrics, OpenStore, and the services of earlier parts.
    """

    @classmethod
    def of(cls, gateway: Gateway) -> Self:
        """Make it for a gateway, by the annotations of its constructor. Raises CallerError for bad settings."""
        needs = get_type_hints(cls.__init__)
        needs.pop("return", None)
        return cls(**{name: gateway.provide(kind) for name, kind in needs.items()})

    def start(self) -> None:
        """Start what runs beside requests, in the running loop."""

    async def close(self) -> None:
        """End it. Later parts have ended; those before, and the connections, have not."""


Kind = TypeVar("Kind", bound=Service)


class Gateway:
    """The app's state: `request.app.state.gateway`. `feedback`, `control`: the publishers of these topics."""

    def __init__(self, settings: Settings, dev: Path | None = None) -> None:
        """Prepare the connections. `dev`: the folder of `turnmill dev`, if this command starts the gateway."""
        self.settings = settings
        self.dev = dev
        self.metrics = Metrics(settings.metric_series)
        # Only URIs of the content store are fetched: a stored URI must not make the gateway call inner services.
        self.contents = ContentStore.of(settings, elsewhere=False)
        self._services: dict[type[Service], Service] = {}
        self._store = Opened(lambda: ThreadStore.open(settings.store_url))
        # Always to the brokers: if this environment names a gateway for agents, this one would publish to itself.
        to_brokers = settings.model_copy(update={"publish_url": None, "control": False})
        self._publisher = Opened(lambda: Publisher(to_brokers).__aenter__())
        self.feedback = Opened(lambda: Publisher(to_brokers, topic=FEEDBACK).__aenter__())
        self.control = Opened(lambda: Publisher(to_brokers, topic=CONTROL).__aenter__())

    def add(self, kind: type[Service]) -> None:
        """Make a service. Raises CallerError for bad settings."""
        self._services[kind] = kind.of(self)

    def provide(self, kind: Any) -> Any:
        """Return what a service needs. Raises KeyError if this gateway doesn't have it."""
        common = {Gateway: self, Settings: self.settings, Metrics: self.metrics, OpenStore: self.store}
        return common[kind] if kind in common else self._services[kind]

    def service(self, kind: type[Kind]) -> Kind:
        """Return the service of this class. Raises KeyError if its part doesn't exist here."""
        service: Kind = self._services[kind]  # type: ignore[assignment]  # `add` keeps each under its class
        return service

    async def store(self) -> ThreadStore:
        """Return the thread store. Raises StoreError."""
        return await self._store.get()

    async def publisher(self) -> Publisher:
        """Return the publisher that all uploads share. Raises BrokerError."""
        return await self._publisher.get()

    def start(self) -> None:
        """Start the services."""
        for service in self._services.values():
            service.start()

    async def close(self) -> None:
        """End the services, the last first; deliver the accepted records, and disconnect."""
        for service in reversed(self._services.values()):
            await service.close()
        for publisher in (self._publisher.value, self.feedback.value, self.control.value):
            if publisher is not None:
                await publisher.__aexit__(None, None, None)
        if self._store.value is not None:
            await self._store.value.close()

    async def find(self, conversation_id: str, tenant: str | None) -> ThreadKey:
        """Return the stored thread that a caller of `tenant` means (None: any tenant, "": threads without a tenant).

        Raises StoreError, and Problem where no tenant or several tenants have such a thread.
        """
        key = only_one(conversation_id, await self.stored(conversation_id, tenant))
        if key is None:
            raise unknown_thread(conversation_id)
        return key

    async def stored(self, conversation_id: str, tenant: str | None) -> set[ThreadKey]:
        """Return the stored threads of this name; `tenant` None: of all tenants. Raises StoreError."""
        return set(await find_threads(await self.store(), conversation_id, tenant))


def only_one(conversation_id: str, keys: Collection[ThreadKey]) -> ThreadKey | None:
    """Return the thread, None if there is none. Raises Problem if several tenants have a thread of this name."""
    if len(keys) > 1:
        tenants = sorted(key.tenant or "" for key in keys)[:MAX_TENANTS_SHOWN]
        raise Problem(
            "conflict",
            f"several tenants have a thread {conversation_id!r:.200}: say with `tenant` which one is meant, the empty "
            f"one for none: {', '.join(repr(tenant) for tenant in tenants):.1000}",
            tenants=tenants,
        )
    return next(iter(keys), None)


def unknown_thread(conversation_id: str) -> Problem:
    """Return the problem of a thread that doesn't exist or is another tenant's; callers can't tell which."""
    return Problem(
        "unknown-thread", f"no thread {conversation_id!r:.200} is stored: GET /v1/threads lists those that are"
    )


def gateway_of(request: Request) -> Gateway:
    """Return the app's gateway."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def _gateway(request: Request) -> Gateway:
    return gateway_of(request)


TheGateway = Annotated[Gateway, Depends(_gateway)]


def provided(kind: type[Kind]) -> Any:
    """Return the FastAPI dependency by which a route gets the service of this class."""

    async def service(request: Request) -> Kind:
        return gateway_of(request).service(kind)

    return Depends(service)


class StoreSlots(Service):
    """`searches`: for searches, and lists that search or sift; `reads`: for whole threads in memory."""

    def __init__(self) -> None:
        self.searches = Slots(SEARCHES.size)
        self.reads = Slots(READS.size)


TheSlots = Annotated[StoreSlots, provided(StoreSlots)]


class Aside(Service):
    """Runs calls in threads, of which each tenant has a share. The limit of open requests bounds the waiting calls."""

    def __init__(self) -> None:
        self._slots = Slots(ASIDE.size)

    async def run(
        self, tenant: str | None, call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call in a thread as soon as the tenant's share of the threads allows it."""
        async with self._slots.taken(tenant):
            return await asyncio.to_thread(call, *args, **kwargs)


TheAside = Annotated[Aside, provided(Aside)]
