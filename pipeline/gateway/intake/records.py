"""Records over HTTP, as `turnmill.Publisher` sends them if TURNMILL_PUBLISH_URL names a gateway.

They have the form of the events topic, but a thread may have any name, and its tenant is that of the token.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from pipeline.dialects import DIALECTS
from pipeline.gateway.access.limits import BodyTooLarge, BodyTooSlow, chunks
from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Sender
from pipeline.gateway.intake.ingest import Refusal
from pipeline.gateway.intake.uploads import TheUploads
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.state import SMALL_BYTES, TheAside, TheGateway
from topics.catalog import EVENTS
from turnmill.errors import InvalidRecord, Reason
from turnmill.identity import thread_uuid
from turnmill.limits import PUBLISHED_BYTES, PUBLISHED_LINE_BYTES, REFUSALS
from turnmill.wire.envelope import checked, encode, loads

UNKNOWN: Final = "unknown"  # dialect, in metrics: such records become dead letters
YIELD_RECORDS: Final = 100  # records between two yields to the event loop

router = APIRouter(prefix="/v1", tags=["runs"])


class TakenRecords(BaseModel):
    """The result of a batch. It is safe: the broker has confirmed it, or it is in the gateway's spool on disk."""

    records: Annotated[int, Field(description="Number of records published.")]
    refusals: Annotated[list[Refusal], Field(description="Records that can't be published; more than 1,000: 413.")]


BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "Records of the events topic, one a line; `thread_id` may be any name.",
        "content": {
            "application/x-ndjson": {
                "schema": {"type": "string"},
                "example": '{"v":1,"thread_id":"chat-17","run_id":"r1","agent_id":"weather","seq":0,"ts":1767225600000,'
                '"dialect":"vercel-ai","events":[{"type":"start"}],"run":{"external_id":"chat-17"}}\n',
            }
        },
    }
}


@dataclass(slots=True)
class Batch:
    """The records of a body: key and value of the valid ones, and the errors of the others."""

    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)  # by dialect


@router.post(
    "/records",
    summary="Publish records",
    openapi_extra=BODY,
    responses=documented("bad-request", "too-slow", "too-large"),
)
async def publish(
    request: Request, gateway: TheGateway, uploads: TheUploads, aside: TheAside, principal: Sender
) -> TakenRecords:
    """Send records of any runs, in the order of each run; the response comes once all of them are safe.

    Sending them again changes nothing, since events are numbered. Use an empty body to check the token.
    """
    settings = gateway.settings
    try:
        with uploads.coming_in():
            most = min(PUBLISHED_BYTES, settings.gateway_body_bytes)
            async with asyncio.timeout(settings.run_timeout):
                body = b"".join([chunk async for chunk in chunks(request.receive, settings.gateway_body_idle, most)])
            small = len(body) <= SMALL_BYTES
            batch = read(body, principal) if small else await aside.run(principal.tenant, read, body, principal)
            if len(batch.refusals) > REFUSALS:
                detail = f"more than {REFUSALS:,} records of it can't be used, so nothing was published"
                raise Problem("too-large", f"{detail}; the first: {batch.refusals[0].detail}")
            if batch.records:
                publisher = await gateway.publisher()
                uploads.outage.take(publisher, principal.tenant, len(body))
                for number, (key, value) in enumerate(batch.records):
                    await publisher.put(key, value)
                    if number % YIELD_RECORDS == 0:
                        await asyncio.sleep(0)
                await publisher.kept()
    except (BodyTooSlow, TimeoutError):
        raise Problem("too-slow", f"nothing came for {settings.gateway_body_idle:g} s") from None
    except BodyTooLarge:
        raise Problem("too-large", f"one request may have {most:,} bytes: send the records in several") from None
    except ClientDisconnect:
        raise Problem("bad-request", "the body broke off: nothing of it was published") from None
    uploads.count_events(batch.events, Counter(refused.reason for refused in batch.refusals))
    return TakenRecords(records=len(batch.records), refusals=batch.refusals)


def read(body: bytes, principal: Principal) -> Batch:
    """Return the records of JSON lines, in the form of the events topic.

    A malformed line does not stop the others; reading ends after more than REFUSALS of them.
    """
    batch = Batch()
    for number, line in enumerate(BytesIO(body), 1):
        if not line.strip():
            continue
        try:
            if len(line) > PUBLISHED_LINE_BYTES:
                raise InvalidRecord(Reason.TOO_LARGE, f"a line may have {PUBLISHED_LINE_BYTES:,} bytes")
            envelope = owned(loads(line), principal)
            value = encode(envelope)
            if len(value) > EVENTS.max_message_bytes:
                detail = f"a record may have {EVENTS.max_message_bytes:,} bytes, this one has {len(value):,}"
                raise InvalidRecord(Reason.TOO_LARGE, detail)
        except InvalidRecord as error:
            batch.refusals.append(Refusal(line=number, reason=error.reason, detail=error.detail))
            if len(batch.refusals) > REFUSALS:
                break
            continue
        batch.records.append((envelope["thread_id"].encode(), value))
        batch.events[envelope["dialect"] if envelope["dialect"] in DIALECTS else UNKNOWN] += len(envelope["events"])
    return batch


def owned(value: Any, principal: Principal) -> dict[str, Any]:
    """Return a record with thread names replaced by ids, and with the token's tenant. Raises InvalidRecord."""
    if isinstance(value, dict):
        tenant = value.get("tenant") or None
        if principal.tenant is not None:
            if tenant not in (None, principal.tenant):
                detail = f"the token is bound to its own tenant: leave out tenant {tenant!r:.80}"
                raise InvalidRecord(Reason.NOT_AN_ENVELOPE, detail)
            tenant = value["tenant"] = principal.tenant
        of = tenant if isinstance(tenant, str) else None
        value["thread_id"] = _id(value.get("thread_id"), of)
        run = value.get("run")
        if isinstance(run, dict) and run.get("parent_thread_id") is not None:
            value["run"] = {**run, "parent_thread_id": _id(run["parent_thread_id"], of)}
    return checked(value)


def _id(name: Any, tenant: str | None) -> Any:
    return thread_uuid(name, tenant)[0] if isinstance(name, str) and name else name
