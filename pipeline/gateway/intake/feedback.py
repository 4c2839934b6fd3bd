"""Feedback over HTTP, published to its topic."""

from contextlib import suppress
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from pipeline.gateway.access.security import Judge, alternatives
from pipeline.gateway.intake.uploads import TheUploads
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import Named, ThreadId, Whose
from pipeline.gateway.state import TheGateway
from pipeline.observability.audit import about, audit
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.feedback import author_of
from pipeline.stores.threads.reading import erased_among
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.limits import COMMENT_CHARACTERS, FEEDBACK_CHARACTERS
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode

FOR_OTHERS: Final = ("publish", "admin")  # scopes of programs that pass on what their users say, and of operators

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
    """Publish feedback on a thread, which needn't be stored yet. Workers store it; read it with `?feedback=true`.

    Who has the scope `feedback` alone speaks in their own name, and changes no feedback of others.
    """
    bounded = principal.bounded(tenant)
    fields = given.model_dump()
    for_others = not principal.scopes.isdisjoint(FOR_OTHERS)
    if fields["by"] is None and principal.limited:
        fields["by"] = principal.name
    if fields["by"] not in (None, principal.name) and not for_others:
        raise Problem("forbidden", f"feedback in the name of others needs a scope of {', '.join(FOR_OTHERS)}")
    fields["by_id"] = principal.identity if principal.limited else None
    try:
        record = made(thread_id, bounded, fields)
    except InvalidRecord as error:
        raise Problem("bad-request", error.detail) from None
    value = encode(record)
    key = ThreadKey.of(record["thread_id"], bounded)
    with suppress(StoreError):  # the thread may be deleted; a worker checks again
        store = await gateway.store()
        if await erased_among(store, [key]):
            raise Problem("conflict", "the thread was deleted, and nothing more is stored of it")
        author, identity = ("", "") if given.id is None else await author_of(store, key, given.id)
        if identity != principal.identity if identity else author not in ("", fields["by"], principal.name):
            if not for_others:
                raise Problem("forbidden", f"this feedback is {author!r:.100}'s")
            audit.info("feedback of %r is changed by %r", author, principal.name, extra=about(key, "feedback.change"))
    publisher = await gateway.feedback.get()
    uploads.outage.take(publisher, bounded, len(value))
    await publisher.put(record["thread_id"].encode(), value)
    await publisher.kept()
    return TakenFeedback(id=record["id"])
