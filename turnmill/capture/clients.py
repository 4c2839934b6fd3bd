"""HTTP clients whose model calls are published: `OpenAI(http_client=turnmill.client())`.

They are clients of httpx2 or of httpx, whichever the SDK requires; by default of the library that the program has
imported.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from turnmill.capture.hooks import httpx as hook
from turnmill.capture.runtime import runtime
from turnmill.errors import CallerError

LIBRARIES: Final = ("httpx2", "httpx")
MOST_CONNECTIONS: Final = {"max_connections": 1_000, "max_keepalive_connections": 100}  # the SDKs' values


def client(
    *, library: str | None = None, thread_id: str | None = None, agent_id: str | None = None, **options: Any
) -> Any:
    """Return an `httpx2.Client` or `httpx.Client` whose calls to models are published.

    Args:
        library: "httpx2" or "httpx"; by default the one that is installed.
        thread_id: The conversation of all calls by this client; a request's headers take precedence.
        agent_id: The agent of all calls by this client, likewise.
        options: Arguments of the client itself.

    Raises:
        CallerError: Neither library is installed.
    """
    return _client("Client", library, _about(thread_id, agent_id), options)


def async_client(
    *, library: str | None = None, thread_id: str | None = None, agent_id: str | None = None, **options: Any
) -> Any:
    """Return an `AsyncClient`; otherwise like `client`."""
    return _client("AsyncClient", library, _about(thread_id, agent_id), options)


def transport(inner: Any, *, thread_id: str | None = None, agent_id: str | None = None) -> Any:
    """Return a transport for a client of your own; it publishes the calls that it sends through `inner`.

    Args:
        inner: A transport of httpx2 or httpx.
        thread_id: The conversation of all its calls; a request's headers take precedence.
        agent_id: The agent of all its calls, likewise.

    Raises:
        CallerError: `inner` is no transport of either library.
    """
    return _transport(inner, _about(thread_id, agent_id))


def _transport(inner: Any, about: Mapping[str, str]) -> Any:
    for name in LIBRARIES:
        module = sys.modules.get(name)
        kinds = (module.BaseTransport, module.AsyncBaseTransport) if module is not None else ()
        bases = tuple(kind for kind in kinds if isinstance(inner, kind))  # a transport for tests may be both
        if bases:
            runtime().prepare()
            return type("Publishing", bases, _methods(module, inner, about))()
    raise CallerError(f"a transport of httpx2 or httpx is expected, not {type(inner).__name__}")


def _client(kind: str, library: str | None, about: Mapping[str, str], options: Mapping[str, Any]) -> Any:
    """Return a client with the SDKs' options; its transports are wrapped, also those for proxies of the environment."""
    module = _library(library)
    limits = module.Limits(**MOST_CONNECTIONS)
    made = getattr(module, kind)(**{"follow_redirects": True, "limits": limits, **options})
    made._transport = _transport(made._transport, about)  # noqa: SLF001  # a client given one makes no others
    mounts = made._mounts  # noqa: SLF001
    for pattern, mounted in mounts.items():
        mounts[pattern] = None if mounted is None else _transport(mounted, about)
    return made


def _about(thread_id: str | None, agent_id: str | None) -> dict[str, str]:
    headers = {"turnmill-thread": thread_id, "turnmill-agent": agent_id}
    return {name: value for name, value in headers.items() if value is not None}


def _library(name: str | None) -> ModuleType:
    imported = [known for known in LIBRARIES if known in sys.modules]
    for wanted in (name,) if name else (*imported, *LIBRARIES):
        try:
            return import_module(wanted)
        except ImportError:
            continue
    raise CallerError(f"there is no {name or 'httpx2, nor httpx'}: install it beside this package")


def _methods(module: Any, inner: Any, about: Mapping[str, str]) -> dict[str, Any]:
    """Return the methods of a transport, synchronous and asynchronous."""

    def handle_request(_: Any, request: Any) -> Any:
        call = hook.begin(request, about)

        def send() -> Any:
            token = hook.inside.set(True)
            try:
                return inner.handle_request(request)
            finally:
                hook.inside.reset(token)

        return send() if call is None else hook.sent(call, send, inner, request, module)

    async def handle_async_request(_: Any, request: Any) -> Any:
        call = hook.begin(request, about)

        async def send() -> Any:
            token = hook.inside.set(True)
            try:
                return await inner.handle_async_request(request)
            finally:
                hook.inside.reset(token)

        return await (send() if call is None else hook.sent_async(call, send, module))

    def close(_: Any) -> None:
        inner.close()

    async def aclose(_: Any) -> None:
        await inner.aclose()

    methods = (handle_request, handle_async_request, close, aclose)
    return {method.__name__: method for method in methods}
