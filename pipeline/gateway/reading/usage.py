"""Usage over HTTP: what was used, by whom, when. It is read from stored turns, so a replay never counts twice."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from pipeline.gateway.access.audit import read_out
from pipeline.gateway.access.security import Reader, TheAdmission
from pipeline.gateway.parameters import JSON, PRIVATE, Tenant, ThreadId
from pipeline.gateway.problems import documented
from pipeline.gateway.route_facts import facts
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.summaries import TurnUsage
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import BUCKETS, GROUPS, ORDERS, UsageQuery
from pipeline.stores.usage.turns import turn_usage
from topics import json_text
from turnmill.clock import now_ms

CSV: Final = "text/csv"

router = APIRouter(tags=["usage"])

Values = Annotated[list[Annotated[str, Query(max_length=500)]], Query(max_length=100)]


@router.get(
    "/v1/usage",
    summary="Tokens, cost, turns, errors and times",
    response_class=Response,
    responses={
        200: {"description": "The report", "content": {JSON: {"schema": {"type": "object"}}, CSV: {}}},
        **documented("bad-request"),
    },
)
@facts("own")
async def read_usage(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Reader,
    group_by: Annotated[
        list[str], Query(max_length=10, description=f"Any of {', '.join(GROUPS)}; repeated, or with commas.")
    ] = [],  # noqa: B006  # FastAPI copies it
    bucket: Annotated[Literal[BUCKETS] | None, Query(description="One row for each hour, day, …")] = None,  # type: ignore[valid-type]  # the names of a registry
    tz: Annotated[str, Query(max_length=100, description="Time zone of buckets and of times without one.")] = "UTC",
    start: Annotated[
        str | None, Query(alias="from", max_length=50, description="From this time on: ISO 8601, or age, as 24h, 7d.")
    ] = None,
    end: Annotated[str | None, Query(alias="to", max_length=50, description="Before this time.")] = None,
    model: Values = [],  # noqa: B006  # FastAPI copies it
    provider: Values = [],  # noqa: B006  # FastAPI copies it
    agent: Values = [],  # noqa: B006  # FastAPI copies it
    tenant: Annotated[str | None, Query(max_length=200, description="For tokens without a tenant.")] = None,
    prompt: Values = [],  # noqa: B006  # FastAPI copies it
    thread: Values = [],  # noqa: B006  # FastAPI copies it
    finish_reason: Values = [],  # noqa: B006  # FastAPI copies it
    limit: Annotated[int, Query(ge=1, le=1000, description="Number of groups; the rest is summed as `other`.")] = 100,
    order: Annotated[Literal[ORDERS], Query(description="What the greatest groups are chosen by.")] = "total_tokens",  # type: ignore[valid-type]  # the names of a registry
    feedback: Annotated[
        list[Annotated[str, Query(max_length=1_000)]],
        Query(max_length=10, description="Add the mean of the numeric feedback of this name."),
    ] = [],  # noqa: B006  # FastAPI copies it
    form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
) -> Response:
    """Return `rows`, their `total`, and `unpriced`: models whose cost is unknown, with their number of responses.

    `turns`, `interrupted` and `errors` count a turn in the row of its last response. Times are in ms, by nearest rank;
    from stored sums, they are within 2 % of it.
    """
    bounded = principal.bounded(tenant)
    where = {"model": model, "provider": provider, "agent": agent, "prompt": prompt, "thread": thread}
    where["finish_reason"] = finish_reason
    where["tenant"] = [] if bounded is None else [bounded]
    now = now_ms()
    query = UsageQuery.of(group_by, bucket, tz, (start, end), where, limit, order, now, feedback)
    report = await usage_report(await gateway.store(), query)
    if form == "csv":
        read_out(admission, "usage.export", "", bounded)
        headers = {**PRIVATE, "Content-Disposition": 'attachment; filename="usage.csv"'}
        return Response(report.csv(), headers=headers, media_type=f"{CSV}; charset=utf-8")
    return Response(json_text.dumps(report.document()), headers=PRIVATE, media_type=JSON)


class ThreadUsage(BaseModel):
    """`turns`: usage by `meta:turn_id`, of the turns that used anything."""

    thread_id: str
    turns: dict[str, TurnUsage]


@router.get(
    "/v1/threads/{thread_id}/usage",
    summary="Tokens and cost of each turn",
    responses=documented("unknown-thread", "conflict"),
)
@facts("own")
async def thread_usage(
    gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None
) -> ThreadUsage:
    """Return the usage of the stored turns; `cost_usd` is null where no price is known."""
    found = await gateway.find(thread_id, principal.bounded(tenant))
    turns = await turn_usage(await gateway.store(), found)
    return ThreadUsage(thread_id=found.thread_id, turns=turns)
