"""Runs over HTTP: the body of an upload is the stream of a run, published as it arrives."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import AUTO, UnknownWire
from pipeline.gateway.access.limits import BodyTooLarge, BodyTooSlow, chunks
from pipeline.gateway.access.security import Sender
from pipeline.gateway.intake.facts import End, FactHeaders, UploadQuery, facts_of, info_of
from pipeline.gateway.intake.uploads import TheUploads, Upload
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import ThreadId, facts
from pipeline.gateway.state import Gateway, TheAside, TheGateway
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import erased_among
from topics.thread_key import ThreadKey
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid
from turnmill.limits import NAMED_CHARACTERS
from turnmill.publish.run import PublishedRun

UNFIT: Final = ("multipart/", "image/", "audio/", "video/")
PROBLEMS: Final = (
    *("bad-request", "too-slow", "conflict", "too-large", "unsupported-media-type"),
    *("invalid-parameters", "unreadable-stream"),
)

router = APIRouter(prefix="/v1/threads", tags=["runs"])


class Refusal(BaseModel):
    """An event, or a record, that was not published."""

    line: Annotated[int, Field(description="Line of the body, from 1.")]
    reason: str
    detail: str


class Report(BaseModel):
    """The result of an upload. It is safe: the broker has confirmed it, or it is in the gateway's spool on disk."""

    thread_id: Annotated[str, Field(description="The thread's UUID.")]
    run_id: str
    events: Annotated[int, Field(description="Number of events published.")]
    records: Annotated[int, Field(description="Number of records with these events.")]
    next_seq: Annotated[int, Field(description="`from_seq` of an upload that continues the run.")]
    end: End
    refused: Annotated[int, Field(description="Number of unusable events; the rest was published.")]
    refusals: Annotated[list[Refusal], Field(description="The first refused events.")]
    dialect: Annotated[str | None, Field(description="If `auto` was given: the recognised dialect.")] = None
    warning: Annotated[str | None, Field(description="If the named dialect knows none of the events.")] = None


BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The run's own stream, as it comes: SSE or JSON lines; the body itself tells which.",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'data: {"type":"start"}\n\ndata: {"type":"text-start","id":"t"}\n\n'
                'data: {"type":"text-delta","id":"t","delta":"Hello"}\n\ndata: {"type":"text-end","id":"t"}\n\n'
                'data: {"type":"finish"}\n\n',
            },
            "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"type":"start"}\n{"type":"finish"}\n'},
        },
    }
}


@router.post(
    "/{thread_id}/runs/{run_id}/stream",
    summary="Publish a run's stream",
    openapi_extra=BODY,
    responses=documented(*PROBLEMS),
    response_model_exclude_none=True,
)
@facts("published", strangers=200)
async def upload(
    request: Request,
    gateway: TheGateway,
    uploads: TheUploads,
    aside: TheAside,
    principal: Sender,
    thread_id: ThreadId,
    run_id: Annotated[str, Path(min_length=1, max_length=NAMED_CHARACTERS, description="Unique in the thread.")],
    where: Annotated[UploadQuery, Query()],
    headers: Annotated[FactHeaders, Header()],
) -> Report:
    """Send the body while the agent speaks; the response comes once all of it is safe.

    Sending it again, whole or from `from_seq` on, changes nothing: events are numbered from 0, and known numbers are
    dropped. A body that breaks off closes its run as `disconnected`; a later upload can continue it.
    """
    _check_type(headers)
    tenant = principal.bounded(where.tenant)
    await _check_thread(gateway, ThreadKey.of(thread_uuid(thread_id, tenant)[0], tenant))
    publisher = await gateway.publisher()
    first_seq = where.from_seq if where.from_seq is not None else headers.turnmill_from_seq or 0

    def begin(in_body: dict[str, Any]) -> PublishedRun:
        facts, asked = facts_of(where, headers, in_body)
        return publisher.run(
            thread_id=thread_id,
            run_id=run_id,
            agent_id=facts.agent_id or facts.agent_name or "agent",
            dialect=where.dialect if incoming.dialect is None else incoming.dialect.name,
            tenant=tenant,
            info=info_of(facts, asked, tenant),
            first_seq=first_seq,
            traceparent=headers.traceparent,
        )

    beside = partial(aside.run, principal.tenant)
    at = now_ms() if "content-length" in request.headers else None
    incoming = Upload(DIALECTS.get(where.dialect), begin, beside, info_first=where.info == "first", at=at)
    end: End = "disconnected"
    problem: Problem | None = None
    settings = gateway.settings
    try:
        with uploads.coming_in():
            async with asyncio.timeout(settings.run_timeout):
                async for chunk in chunks(request.receive, settings.gateway_body_idle, settings.gateway_body_bytes):
                    uploads.outage.take(publisher, tenant, len(chunk))
                    await incoming.feed(chunk)
                await incoming.close()
        end = where.end or incoming.end
    except BodyTooSlow:
        detail = f"nothing came for {settings.gateway_body_idle:g} s, so the run was closed as disconnected"
        problem = Problem("too-slow", detail)
    except TimeoutError:
        detail = f"a run may take {settings.run_timeout:g} s, so it was closed as disconnected"
        problem = Problem("too-slow", detail)
    except BodyTooLarge:
        most = settings.gateway_body_bytes
        detail = f"a body may have {most:,} bytes: what came before was published; send the rest from `next_seq` on"
        end, problem = "open", Problem("too-large", detail)
    except UnknownWire as error:
        problem = Problem("unreadable-stream", f"{error}; name it with `dialect`", refused=0, refusals=[])
    except Problem as full:
        problem = full
    except ClientDisconnect:
        problem = Problem("bad-request", "the body broke off, so the run was closed as disconnected")
    finally:
        # Always, even if the gateway stops: publish the accepted events, and give the run an end.
        run = await incoming.finish(end, end_given=where.end is not None)
        uploads.count_events(incoming.events, incoming.reasons)
    if run is None:
        raise _nothing(incoming) if problem is None else problem
    await publisher.kept()
    report = _report(run, first_seq, end, incoming)
    if where.dialect == AUTO and incoming.dialect is not None:
        report.dialect = incoming.dialect.name
    if problem is not None:
        problem.more = report.model_dump(exclude_none=True)
        raise problem
    if incoming.too_large:
        detail = f"{incoming.too_large} event(s) are too large for a record and were left out; the rest was published"
        raise Problem("too-large", detail, **report.model_dump(exclude_none=True))
    return report


def _report(run: PublishedRun, first_seq: int, end: End, incoming: Upload) -> Report:
    refusals = [Refusal(line=line, reason=error.reason, detail=error.detail) for line, error in incoming.refusals]
    return Report(
        thread_id=run.thread_id,
        run_id=run.run_id,
        events=incoming.accepted,
        records=run.records,
        next_seq=first_seq + incoming.accepted,
        end=end,
        refused=incoming.refused,
        refusals=refusals,
        warning=incoming.warning,
    )


def _nothing(incoming: Upload) -> Problem:
    if not incoming.refused:
        detail = "the body has no event: SSE or JSON lines are expected"
        return Problem("unreadable-stream", detail, refused=0, refusals=[])
    shown = [{"line": line, "reason": error.reason, "detail": error.detail} for line, error in incoming.refusals]
    kind = "too-large" if incoming.too_large == incoming.refused else "unreadable-stream"
    detail = f"no event of the body can be used; the first: {shown[0]['detail']}"
    return Problem(kind, detail, refused=incoming.refused, refusals=shown)


def _check_type(headers: FactHeaders) -> None:
    encoding = (headers.content_encoding or "identity").strip().lower()
    if encoding != "identity":
        raise Problem("unsupported-media-type", f"a body is not encoded: leave out Content-Encoding: {encoding:.80}")
    kind = (headers.content_type or "").partition(";")[0].strip().lower()
    if kind.startswith(UNFIT):
        raise Problem(
            "unsupported-media-type",
            f"{kind:.80} holds no events: send text/event-stream or application/x-ndjson",
            headers={"Accept-Post": "text/event-stream, application/x-ndjson"},
        )


async def _check_thread(gateway: Gateway, thread: ThreadKey) -> None:
    """Raise Problem for a deleted thread. While the store is away, every thread is allowed."""
    with suppress(StoreError):
        if await erased_among(await gateway.store(), [thread]):
            raise Problem("conflict", "the thread was deleted, and nothing more is stored of it: begin another one")
