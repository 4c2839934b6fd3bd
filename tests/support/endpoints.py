"""Each operation of a gateway's OpenAPI document that asks who calls, tried by callers who may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx

from pipeline.gateway.people import PROOF


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


def endless(document: Mapping[str, Any], *, followed: bool = True) -> set[str]:
    """Return the paths of streams that don't end. `followed`: also of those that `?follow=false` ends."""
    found = set()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            streams = "text/event-stream" in operation["responses"].get("200", {}).get("content", ())
            named = {one["name"] for one in operation.get("parameters", ())}
            if streams and (followed or "follow" not in named):
                found.add(path)
    return found


def takes_json(operation: Mapping[str, Any]) -> bool:
    """Return True if an operation refuses a body that is no JSON."""
    return "application/json" in operation.get("requestBody", {}).get("content", ())


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
