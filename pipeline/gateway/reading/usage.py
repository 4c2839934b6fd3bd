"""Usage over HTTP: what was used, by whom, when. It is read from stored turns, so a replay never counts twice."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pipeline.gateway.access.audit import read_out
from pipeline.gateway.access.security import Reader, TheAdmission
from pipeline.gateway.problems import OF_STORED, documented
from pipeline.gateway.routing import JSON, PRIVATE, Tenant, ThreadId, facts
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.summaries import TurnUsage
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import BUCKETS, GROUPS, ORDERS, UsageQuery
from pipeline.stores.usage.rows import turn_usage
from topics import json_text
from turnmill.clock import now_ms

CSV: Final = "text/csv"

router = APIRouter(tags=["usage"])

Values = Annotated[list[Annotated[str, Field(max_length=500)]], Field(max_length=100)]


class UsageParameters(BaseModel):
    """The query of a report."""

    group_by: list[str] = Field([], max_length=10, description=f"Any of {', '.join(GROUPS)}; repeated, or with commas.")
    bucket: Literal[BUCKETS] | None = Field(None, description="One row for each hour, day, …")  # type: ignore[valid-type]  # the names of a registry
    tz: str = Field("UTC", max_length=100, description="Time zone of buckets and of times without one.")
    start: str | None = Field(
        None, alias="from", max_length=50, description="From this time on: ISO 8601, or age, as 24h, 7d."
    )
    end: str | None = Field(None, alias="to", max_length=50, description="Before this time.")
    model: Values = []
    provider: Values = []
    agent: Values = []
    tenant: str | None = Field(None, max_length=200, description="For tokens without a tenant.")
    prompt: Values = []
    thread: Values = []
    finish_reason: Values = []
    service_tier: Values = Field([], description="As flex, priority, batch, fast; empty for the standard tier.")
    purpose: Values = Field([], description="Of calls beside the answer, as compaction; empty for the answer.")
    user: Values = Field([], description="A label of runs, as the next four.")
    tag: Values = Field([], description="Grouped by it, what has several tags counts under each.")
    environment: Values = []
    project: Values = []
    branch: Values = []
    limit: int = Field(100, ge=1, le=1000, description="Number of groups; the rest is summed as `other`.")
    order: Literal[ORDERS] = Field("total_tokens", description="What the greatest groups are chosen by.")  # type: ignore[valid-type]  # the names of a registry
    feedback: list[Annotated[str, Field(max_length=1_000)]] = Field(
        [], max_length=10, description="Add the mean of the numeric feedback of this name."
    )
    form: Literal["json", "csv"] = Field("json", alias="format")


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
    gateway: TheGateway, admission: TheAdmission, principal: Reader, asked: Annotated[UsageParameters, Query()]
) -> Response:
    """Return `rows`, their `total`, and `unpriced`: models whose cost is unknown, with their number of responses.

    `unpriced_reasons` says why. What is unknown is null, never 0.
    `turns`, `interrupted` and `errors` count a turn in the row of its last response. Times are in ms, by nearest rank;
    from stored sums, they are within 2 % of it.
    """
    bounded = principal.bounded(asked.tenant)
    where = asked.model_dump(include={*GROUPS} - {"tenant", "origin"})
    where["tenant"] = [] if bounded is None else [bounded]
    span = asked.start, asked.end
    query = UsageQuery.of(
        asked.group_by, asked.bucket, asked.tz, span, where, asked.limit, asked.order, now_ms(), asked.feedback
    )
    report = await usage_report(await gateway.store(), query)
    if asked.form == "csv":
        read_out(admission, "usage.export", "", bounded)
        headers = {**PRIVATE, "Content-Disposition": 'attachment; filename="usage.csv"'}
        return Response(report.csv(), headers=headers, media_type=f"{CSV}; charset=utf-8")
    return Response(json_text.dumps(report.document()), headers=PRIVATE, media_type=JSON)


class ThreadUsage(BaseModel):
    """`turns`: usage by `meta:turn_id`, of the turns that used anything; `total`: that of the thread."""

    thread_id: str
    turns: dict[str, TurnUsage]
    total: TurnUsage


@router.get("/v1/threads/{thread_id}/usage", summary="Tokens and cost of each turn", responses=OF_STORED)
@facts("own")
async def thread_usage(
    gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None
) -> ThreadUsage:
    """Return the usage of the stored turns; `cost_usd` is null where no price is known, and `unpriced` says why."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    turns, total = await turn_usage(await gateway.store(), key)
    return ThreadUsage(thread_id=key.thread_id, turns=turns, total=total)
