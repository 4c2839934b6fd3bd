"""A request that is sent again: its address, path and key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topics.json_text import Fields
from turnmill.capture.providers import APIS, BASES, PROVIDERS
from turnmill.errors import CallerError


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model. `headers` include the key, and are neither printed nor published."""

    dialect: str
    provider: str
    model: str
    url: str
    headers: Mapping[str, str]
    body: Fields


def request(
    dialect: str, provider: str | None, model: str, body: Fields, base: str | None, variables: Mapping[str, str]
) -> Request:
    """Return the request. Raises CallerError if its server or its key is unknown."""
    api = APIS[dialect]
    name = provider if provider in BASES else api.owner if provider is None or base else None
    if name is None:
        raise CallerError(f"no address is known for the provider {provider!r:.60}: give it by --base-url")
    server = PROVIDERS[name]
    address = (base or variables.get(server.variable) or BASES[name] + server.version).rstrip("/")
    key = next((variables[variable] for variable in server.keys if variables.get(variable)), None)
    if key is None:
        raise CallerError(f"the request goes out with your own key: set {' or '.join(server.keys)}")
    path = api.streamed.format(model=model)
    if address.endswith("/v1"):
        path = path.removeprefix("/v1")
    return Request(dialect, provider or name, model, address + path, api.headers_with(key), body)
