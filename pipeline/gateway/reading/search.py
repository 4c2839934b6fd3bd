"""Full-text search in conversations, over HTTP."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from pipeline.gateway.access.security import Reader
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.reading.threads import OFF
from pipeline.gateway.routing import PRIVATE, Labels, Moment, Tenant, facts
from pipeline.gateway.state import TheGateway, TheSlots
from pipeline.stores.search.hits import MAX_HITS, ROLES, SearchPage, SearchQuery, find_turns
from pipeline.turns.searched_text import KINDS, Kind
from turnmill.limits import SEARCH_CHARACTERS

router = APIRouter(prefix="/v1/search", tags=["threads"])


class SearchParameters(Labels):
    """The query of a search."""

    q: str = Field(
        min_length=1,
        max_length=SEARCH_CHARACTERS,
        description='`word "some words" begin* -without`: all must match; case and accents are ignored.',
    )
    tenant: Tenant = None
    agent: str | None = Field(None, max_length=500, description="Only turns of this agent's runs.")
    role: Literal[tuple(ROLES)] | None = Field(None, description="Only text of this role.")  # type: ignore[valid-type]  # the names of a registry
    since: Moment | None = Field(None, description="Said at or after this time.")
    until: Moment | None = Field(None, description="Said before this time.")
    inside: list[Literal[KINDS]] = Field(  # type: ignore[valid-type]  # the names of a registry
        [KINDS[0]],
        alias="in",
        max_length=len(KINDS),
        description="What is searched: spoken text with names of tools; thoughts; results of tools. The last two only "
        "where TURNMILL_SEARCH is `all`.",
    )
    limit: int = Field(20, ge=1, le=MAX_HITS, description="Hits on a page.")
    cursor: str | None = Field(None, max_length=200, description="`next` of the previous page.")


@router.get("", summary="Search in conversations", responses=documented("bad-request", "conflict"))
@facts("own")
async def search(
    gateway: TheGateway,
    slots: TheSlots,
    principal: Reader,
    response: Response,
    asked: Annotated[SearchParameters, Query()],
) -> SearchPage:
    """Return the newest turns that contain the words, best match first.

    `next` is the cursor of the next page; null on the last one.

    Times are milliseconds since 1970. `snippet` is HTML: text, escaped, with hits between `<mark>` and `</mark>`.
    """
    bounded = principal.bounded(asked.tenant)
    if gateway.settings.search == "off":
        raise Problem("conflict", OFF)
    kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in asked.inside)
    within = asked.since, asked.until, asked.limit, asked.cursor
    query = SearchQuery(asked.q, kinds, bounded, asked.agent, asked.role, *within, asked.pairs)
    async with slots.searches.taken(bounded):
        page = await find_turns(await gateway.store(), query)
    response.headers.update(PRIVATE)
    return page
