"""Full-text search in conversations, over HTTP."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from pipeline.gateway.access.security import Reader
from pipeline.gateway.parameters import PRIVATE, Moment, Tenant
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.reading.threads import OFF
from pipeline.gateway.route_facts import facts
from pipeline.gateway.slots import TheSlots
from pipeline.gateway.state import TheGateway
from pipeline.stores.search.hits import MAX_HITS, ROLES, SearchPage, SearchQuery, find_turns
from pipeline.turns.spoken_text import KINDS, Kind
from turnmill.errors import CallerError
from turnmill.limits import SEARCH_CHARACTERS

ROLE_NAMES: Final = tuple(ROLES)

router = APIRouter(prefix="/v1/search", tags=["threads"])


@router.get("", summary="Search in conversations", responses=documented("bad-request", "conflict"))
@facts("own")
async def search(
    gateway: TheGateway,
    slots: TheSlots,
    principal: Reader,
    response: Response,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=SEARCH_CHARACTERS,
            description='`word "some words" begin* -without`: all must match; case and accents are ignored.',
        ),
    ],
    tenant: Tenant = None,
    agent: Annotated[str | None, Query(max_length=500, description="Only turns of this agent's runs.")] = None,
    role: Annotated[Literal[ROLE_NAMES] | None, Query(description="Only text of this role.")] = None,  # type: ignore[valid-type]  # the names of a registry
    since: Annotated[Moment | None, Query(description="Said at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Said before this time.")] = None,
    inside: Annotated[
        list[Literal[KINDS]],  # type: ignore[valid-type]  # the names of a registry
        Query(
            alias="in",
            max_length=len(KINDS),
            description="What is searched: spoken text with names of tools; thoughts; results of tools. The last "
            "two only where TURNMILL_SEARCH is `all`.",
        ),
    ] = [KINDS[0]],  # noqa: B006  # FastAPI copies it
    limit: Annotated[int, Query(ge=1, le=MAX_HITS, description="Hits on a page.")] = 20,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the previous page.")] = None,
) -> SearchPage:
    """Return the newest turns that contain the words, best match first.

    `next` is the cursor of the next page; null on the last one.

    Times are milliseconds since 1970. `snippet` is HTML: text, escaped, with hits between `<mark>` and `</mark>`.
    """
    bounded = principal.bounded(tenant)
    if gateway.settings.search == "off":
        raise Problem("conflict", OFF)
    kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in inside)
    try:
        query = SearchQuery(q, kinds, bounded, agent, role, since, until, limit, cursor)
        async with slots.searches.taken(bounded):
            found = await find_turns(await gateway.store(), query)
    except CallerError as error:
        raise Problem("bad-request", str(error)) from None
    response.headers.update(PRIVATE)
    return found
