"""Facts about a route that its types don't tell. Tests that call every route read them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

Threads = Literal["none", "own", "refused", "published", "deleted"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """`threads`: what a token of a tenant gets to see of threads, or does with them; "refused": it is for operators.

    `strangers`: the status for the id of a thread that the caller can't see. `endless`: the answer goes on until the
    caller leaves, or with `follow=false` ends.
    """

    threads: Threads = "none"
    strangers: int = 404
    endless: bool = False


FACTS: Final[dict[Callable[..., Any], RouteFacts]] = {}  # of the endpoints that differ from the defaults


def facts(threads: Threads = "none", *, strangers: int = 404, endless: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Return the decorator that says this of an endpoint. It stands below the route's."""

    def told(endpoint: Endpoint) -> Endpoint:
        FACTS[endpoint] = RouteFacts(threads, strangers, endless)
        return endpoint

    return told
