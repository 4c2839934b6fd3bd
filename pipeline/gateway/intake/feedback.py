"""Feedback over HTTP, published to its topic."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from pipeline.gateway.access.security import Judge, alternatives
from pipeline.gateway.intake.uploads import TheUploads
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import Named, ThreadId, Whose
from pipeline.gateway.state import TheGateway
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import erased_among
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.limits import COMMENT_CHARACTERS, FEEDBACK_CHARACTERS
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode

router = APIRouter(prefix="/v1/threads", tags=["threads"])

Short = Annotated[str, StringConstraints(min_length=1, max_length=FEEDBACK_CHARACTERS)]
Label = Annotated[str, StringConstraints(strict=True, max_length=FEEDBACK_CHARACTERS)]


class FeedbackRequest(BaseModel, extra="forbid"):
    """Feedback on a thread, or on one of its turns."""

    name: Annotated[Short, Field(description="What is judged: `helpful`, `correctness`, …")]
    value: Annotated[
        StrictBool | StrictInt | StrictFloat | Label | None, Field(description="null withdraws the feedback `id`.")
    ]
    turn_id: Annotated[Named | None, Field(description="Without it and `run_id`: the whole thread.")] = None
    run_id: Named | None = None
    message: Annotated[int | None, Field(ge=0, lt=2**31, description="The place of a message in the turn.")] = None
    comment: Annotated[str, StringConstraints(min_length=1, max_length=COMMENT_CHARACTERS)] | None = None
    by: Annotated[Short | None, Field(description="Who gives it; by default the token's name.")] = None
    id: Annotated[Named | None, Field(description="Feedback with the same id is replaced.")] = None


class TakenFeedback(BaseModel):
    """The feedback's id. It is safe: the broker has confirmed it, or it is in the gateway's spool on disk."""

    id: str


@router.post(
    "/{thread_id}/feedback",
    status_code=201,
    summary="Give feedback",
    openapi_extra=alternatives("publish", "feedback"),
    responses=documented("bad-request", "conflict"),
)
async def give_feedback(
    gateway: TheGateway,
    uploads: TheUploads,
    principal: Judge,
    thread_id: ThreadId,
    given: FeedbackRequest,
    tenant: Whose = None,
) -> TakenFeedback:
    """Publish feedback on a thread, which needn't be stored yet. Workers store it; read it with `?feedback=true`."""
    bounded = principal.bounded(tenant)
    fields = given.model_dump()
    if fields["by"] is None and principal.limited:
        fields["by"] = principal.name
    try:
        record = made(thread_id, bounded, fields)
    except InvalidRecord as error:
        raise Problem("bad-request", error.detail) from None
    value = encode(record)
    key = ThreadKey.of(record["thread_id"], bounded)
    with suppress(StoreError):  # the thread may be deleted; a worker checks again
        if await erased_among(await gateway.store(), [key]):
            raise Problem("conflict", "the thread was deleted, and nothing more is stored of it")
    publisher = await gateway.feedback.get()
    uploads.outage.take(publisher, bounded, len(value))
    await publisher.put(record["thread_id"].encode(), value)
    await publisher.kept()
    return TakenFeedback(id=record["id"])
