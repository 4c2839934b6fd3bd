"""Each operation of a gateway's OpenAPI document that asks who calls, tried by callers who may not."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx
from fastapi.routing import APIRoute

from pipeline.gateway.access.authenticator import PROOF
from pipeline.gateway.routing import FACTS, RouteFacts
from pipeline.gateway.serving.parts import PARTS
from pipeline.gateway.state import Gateway
from pipeline.settings import Settings


class Operation(NamedTuple):
    """An operation with something in place of its path's parameters. `needs`: scopes, one of which it asks for."""

    method: str
    path: str
    needs: frozenset[str]
    by_tenant: bool  # whether `?tenant=` is one of its parameters


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    """Yield those that ask for a token."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needs = frozenset(scope for need in operation.get("security", ()) for scope in need.get("token", ()))
            if needs:
                named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
                yield Operation(method, path.format_map(_Anything()), needs, "tenant" in named)


class _Anything(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "1"


async def let_in(one: Operation, nobody: httpx.AsyncClient, viewer: httpx.AsyncClient, origin: str) -> list[str]:
    """Return in which ways an operation lets in whom it should not.

    `viewer` has the cookie of a session of one tenant with the scope `read` alone.
    """
    ours = {"Origin": origin, "Sec-Fetch-Site": "same-origin", PROOF: "1"}
    tries: list[tuple[str, httpx.AsyncClient, dict[str, str], dict[str, str], int]] = [
        ("no session", nobody, {}, {}, 401),
        ("a wrong token", nobody, {"Authorization": "Bearer tm_wrong"}, {}, 401),
        (
            "another site's page",
            viewer,
            ours | {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
            {},
            403,
        ),
        ("another site's address", viewer, {"Sec-Fetch-Site": "cross-site"}, {}, 403),
    ]
    if one.method != "get":
        tries.append(("a form of this site", viewer, {"Origin": origin, "Sec-Fetch-Site": "same-origin"}, {}, 403))
    if "read" not in one.needs:
        tries.append(("a lesser role", viewer, ours, {}, 403))
    elif one.by_tenant:
        tries.append(("another tenant's", viewer, ours, {"tenant": "globex", "q": "x"}, 403))
    found = []
    for name, caller, headers, query, expected in tries:
        status = (await caller.request(one.method, one.path, headers=headers, params=query)).status_code
        if status != expected:
            found.append(f"{name}: {one.method} {one.path} is answered with {status}")
    return found


def routes() -> list[APIRoute]:
    """The routes of a gateway's parts."""
    gateway = Gateway(Settings())
    routers = [router for part in PARTS if part.exists(gateway) for router in part.add_to(gateway)]
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def facts_of_routes() -> dict[tuple[str, str], RouteFacts]:
    """What the routes say of themselves, by method, in lower case, and path."""
    return {(method.lower(), one.path_format): facts_of(one) for one in routes() for method in one.methods}


def facts_of(route: APIRoute) -> RouteFacts:
    return FACTS.get(route.endpoint, RouteFacts())


def endless_paths(*, without: str = "") -> set[str]:
    """The paths whose answers go on until the caller leaves; only those that don't take the parameter `without`."""
    found = [one for one in routes() if facts_of(one).endless]
    return {one.path for one in found if without not in {field.name for field in one.dependant.query_params}}
