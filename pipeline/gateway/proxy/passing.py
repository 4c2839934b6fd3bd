"""`/proxy/NAME/…`: passes a request on to the upstream of that name, and its answer back, unchanged, as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Admission, admitted
from pipeline.gateway.access.token_table import PREFIX
from pipeline.gateway.budgets.memory import Budgets, used_up
from pipeline.gateway.live.follower import Follower
from pipeline.gateway.problems import Problem, later
from pipeline.gateway.proxy import bodies
from pipeline.gateway.proxy.client import NOT_FOLLOWED
from pipeline.gateway.proxy.exchanging import Exchanges, Outgoing, left
from pipeline.gateway.proxy.passed_headers import of_call, readable, upward
from pipeline.gateway.proxy.publishing import Publishing, Sharing
from pipeline.gateway.proxy.upstreams import AFTER, HEADER, Upstream, upstreams
from pipeline.gateway.state import SMALL_BYTES, Aside, Gateway, Service
from pipeline.observability import metrics as m
from pipeline.policies.budgets import Budget, Verdict
from pipeline.policies.pools import BODIES, HELD
from turnmill.capture.capture import Call
from turnmill.capture.conversations import Conversations
from turnmill.capture.reading import Reading, read
from turnmill.capture.secrets import hidden
from turnmill.control.receiver import Control
from turnmill.labels import of_headers, pairs
from turnmill.shares import Room

if TYPE_CHECKING:
    from pipeline.gateway.control.commands import Commands

PATH: Final = "/proxy/{upstream}/{path:path}"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

POLL_INTERVAL: Final = 0.25  # seconds between two looks at a verdict that a call waits for

Leaving = Callable[[], Coroutine[Any, Any, None]]


class Holding:
    """Holds calls while a person is asked whether more of a budget may be used.

    Each waits for at most `within` seconds.
    """

    def __init__(self, budgets: Budgets, within: float) -> None:
        self._budgets = budgets
        self._within = within
        self._room = Room(HELD.size)

    async def verdict(self, tenant: str | None, budgets: Collection[Budget], leaving: Leaving) -> Verdict:
        """Return the verdict on a tenant's call, once no question is open any more, or after the longest hold.

        `leaving` returns when the client has disconnected; then raises ClientDisconnect.
        """
        verdict = self._budgets.verdict(tenant, budgets)
        if not verdict.asks or not self._room.take(tenant, 1):
            return verdict
        until, gone = time.monotonic() + self._within, asyncio.ensure_future(leaving())
        try:
            while verdict.asks and time.monotonic() < until:
                await asyncio.wait((gone,), timeout=POLL_INTERVAL)
                if gone.done():
                    raise ClientDisconnect
                verdict = self._budgets.verdict(tenant, budgets)
            return verdict
        finally:
            gone.cancel()
            self._room.give(tenant, 1)


class Proxy(Service):
    """The ASGI app below `/proxy`."""

    def __init__(self, gateway: Gateway) -> None:
        """Prepare the proxy. Raises CallerError where TURNMILL_GATEWAY_PROXY is wrong."""
        self._settings = gateway.settings
        self._metrics = gateway.metrics
        self._admission = gateway.service(Admission)
        self._aside = gateway.service(Aside)
        self._budgets = gateway.service(Budgets)
        self._follower = gateway.service(Follower)
        self._commands: Commands | None = None
        self._control: Control | None = None
        if gateway.settings.control:
            from pipeline.gateway.control.commands import Commands  # noqa: PLC0415  # loaded only where it is needed

            self._commands = gateway.service(Commands)
            to_brokers = gateway.settings.model_copy(update={"publish_url": None})
            self._control = Control(to_brokers, values=self._commands.values)
        self._upstreams = upstreams(gateway.settings.gateway_proxy)
        self.conversations = Conversations()
        self._publishing = Publishing(gateway.publisher, self.conversations, self._control)
        self._sharing = Sharing(self._settings.gateway_live_window, self.conversations)
        self._enforces = any(budget.enforce != "notice" for budget in gateway.settings.budget_list)
        self._holding = Holding(self._budgets, gateway.settings.gateway_proxy_hold)
        self._room = Room(BODIES.size)
        self._exchanges = Exchanges(
            self._settings.gateway_proxy_first_byte, self._settings.gateway_proxy_idle, gateway.metrics
        )
        self.route = Route(PATH, self, methods=None, include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        scope["route"] = self.route
        with self._metrics.in_progress(m.PROXY_OPEN), suppress(ClientDisconnect):
            try:
                await self._serve(scope, receive, send)
            except Problem as problem:
                problem.more["error"] = {"type": problem.kind, "code": problem.kind, "message": problem.detail}
                raise  # the app answers, and notes who was refused

    def start(self) -> None:
        """Begin to read the facts and commands of other gateways."""
        self._follower.listen(self._sharing)
        if self._commands is not None and self._control is not None:
            self._commands.listen()
            self._control.listen()

    async def close(self) -> None:
        """Publish the rest of the captured calls, and disconnect."""
        if self._control is not None:
            await self._control.close()
        await self._publishing.close()
        await self._exchanges.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings, headers = self._settings, scope["headers"]
        principal = await self._admitted(scope)
        upstream, path = self._meant(scope["raw_path"])
        _check(scope["method"], headers)
        url = upstream.address(path, scope["query_string"])
        dialect, passed, read = upstream.dialect(scope["method"], path), upward(headers), asyncio.Event()
        leaving = partial(left, receive, read)
        counting = self._enforces and scope["method"] == "POST"
        if dialect is None:
            if counting:  # its body isn't read, so its model is unknown
                facts = _headers(scope, principal)
                counted_by = principal.tenant, facts.get("turnmill-agent"), (), pairs(of_headers(facts))
                await self._check_used_up(principal, self._budgets.counting(*counted_by, enforced=True), leaving)
            size = bodies.length(headers)
            if size is not None:
                passed.append(("Content-Length", size))
            body = None
            if size not in (None, "0") or b"transfer-encoding" in dict(headers):
                body = self._as_it_comes(receive, read)
            else:
                read.set()
            going = Outgoing(upstream, scope["method"], url, passed, body, read)
            await self._exchanges.pass_on(going, NOT_FOLLOWED, receive, send)
            return
        with bodies.taken(self._room, principal.tenant) as taken:
            asked = await bodies.whole(receive, settings.gateway_body_idle, taken)
            read.set()
            call_headers = _headers(scope, principal)
            # A request that the same sender repeats is a retry; from another sender, it is not.
            client = f"{principal.tenant}\n{principal.name}\n{(scope.get('client') or ('',))[0]}"
            call = Call(upstream.name, dialect, unquote(urlsplit(url).path), call_headers, asked, client=client)
            reading = await self._read(call, principal)
            counted = counting and await self._check_budgets(call, reading, principal, leaving)
            run_id = call_headers.get("turnmill-run")
            stops = self._commands.stops(principal.tenant, run_id) if self._commands is not None and run_id else []
            followed = await self._publishing.begin(call, reading, principal.tenant, stops)
            if counted:
                passed = readable(passed)
                if followed.ended:
                    raise later(
                        "unavailable", "a budget counts this call, and it can't be recorded now: it is not passed on"
                    )
            await self._exchanges.pass_on(Outgoing(upstream, "POST", url, passed, asked, read), followed, receive, send)

    async def _admitted(self, scope: Scope) -> Principal:
        """Return the caller. The gateway's token has a separate header: `Authorization` is the provider's."""
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        if authorization.partition(" ")[2].startswith(PREFIX):
            raise Problem(
                "unauthorized", "the gateway's token belongs into `Turnmill-Token`: `Authorization` is the provider's"
            )
        token = headers.get(HEADER, b"").decode("utf-8", "replace").strip()
        return await admitted(
            self._admission, scope, token or None, ["publish"], "send `Turnmill-Token: TOKEN`, or use /proxy/t/TOKEN/…"
        )

    def _meant(self, raw_path: bytes) -> tuple[Upstream, bytes]:
        """Return the upstream of a path, and the rest of the path. Raises Problem."""
        name, slash, rest = raw_path.removeprefix(AFTER).partition(b"/")
        upstream = self._upstreams.get(unquote(name.decode("latin-1")))
        if upstream is None:
            raise Problem("unknown-upstream", f"there are: {', '.join(self._upstreams)}")
        return upstream, slash + rest

    async def _read(self, call: Call, principal: Principal) -> Reading:
        if len(call.body) <= SMALL_BYTES and "content-encoding" not in call.headers:
            return read(call)
        return await self._aside.run(principal.tenant, read, call)

    async def _check_budgets(self, call: Call, reading: Reading, principal: Principal, leaving: Leaving) -> bool:
        """Return whether a budget counts this call. Raises Problem if one is used up, or might be bypassed.

        It might be bypassed by a body that can't be read as the provider reads it, or is too large to be recorded.
        """
        unknown = reading.problem is not None or not reading.models
        budgets = self._budgets.counting(
            principal.tenant,
            call.headers.get("turnmill-agent"),
            None if unknown else reading.models,
            pairs(reading.names.labels),
            enforced=True,
        )
        if budgets and unknown:
            why = reading.problem or "it names no model"
            raise Problem("unreadable-request", f"a budget counts this call, and its body can't be read: {why}")
        await self._check_used_up(principal, budgets, leaving)
        return bool(budgets)

    async def _check_used_up(self, principal: Principal, budgets: Collection[Budget], leaving: Leaving) -> None:
        """Raise Problem if one of these budgets is used up, from memory. Hold the call while a budget asks a person."""
        verdict = await self._holding.verdict(principal.tenant, budgets, leaving)
        if not verdict.allowed:
            raise used_up(verdict)

    async def _as_it_comes(self, receive: Receive, read: asyncio.Event) -> AsyncIterator[bytes]:
        settings = self._settings
        async for chunk in bodies.chunks(receive, settings.gateway_body_idle, settings.gateway_body_bytes):
            yield chunk
        read.set()


def _check(method: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Raise Problem for a WebSocket or a method that is not passed on."""
    if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        raise Problem(
            "no-websocket",
            "WebSockets are not passed on: use the same API over HTTP, with Server-Sent Events",
            headers={"Upgrade": "HTTP/1.1", "Connection": "close"},
        )
    if method not in METHODS:
        raise Problem("method-not-allowed", "this method is not passed on", headers={"Allow": ", ".join(METHODS)})


def _headers(scope: Scope, principal: Principal) -> dict[str, str]:
    """Return the facts that the capture gets in addition to the body: headers, by their names in lower case.

    It publishes none of them, and masks the secrets among them, also those of the query, in texts of the server.
    """
    facts = of_call(scope["headers"])
    facts.pop(HEADER.decode(), None)
    if principal.name and principal.limited:
        facts.setdefault("turnmill-agent", principal.name)
    return facts | hidden(scope["query_string"].decode("latin-1"))


def routes(gateway: Gateway) -> APIRouter:
    """Return the route of the gateway's proxy."""
    router = APIRouter()
    router.routes.append(gateway.service(Proxy).route)
    return router
