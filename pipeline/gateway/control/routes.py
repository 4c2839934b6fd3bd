"""Stopping, steering and answering runs over HTTP, the state of such commands, and their stream for publishers."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel
from starlette.responses import Response

from pipeline.gateway.access.security import Controller, Listening, Sender, Standing, Still
from pipeline.gateway.control.caller import (
    AnswerRequest,
    Caller,
    CommandId,
    CommandIds,
    SteerRequest,
    StopRequest,
    caller_of,
    give,
)
from pipeline.gateway.control.commands import Commands, TheCommands
from pipeline.gateway.live.event_stream import STREAMED, EventStream, comment, frame
from pipeline.gateway.problems import Problem, documented, later
from pipeline.gateway.routing import ThreadId, Whose, facts
from pipeline.gateway.state import TheGateway
from turnmill.limits import ANSWER_BYTES, NAMED_CHARACTERS
from turnmill.wire.envelope import encode

KEEP_ALIVE: Final = 15.0  # seconds
RETRY_MS: Final = 2_000
OF_THREAD: Final = documented("unknown-thread", "conflict")

router = APIRouter(prefix="/v1", tags=["control"])

RunId = Annotated[str, Path(min_length=1, max_length=NAMED_CHARACTERS)]


class OpenAnswers(BaseModel):
    """Answers that no run has taken up, as their records on the control topic, oldest first."""

    answers: list[dict[str, Any]]


class CommandState(BaseModel):
    """The state of a command; times in epoch ms."""

    command_id: str
    kind: str
    thread_id: str
    run_id: str
    by: str
    at: int
    state: Literal["requested", "acknowledged", "ended", "completed", "unanswered", "refused"]
    since: int
    reason: str | None


@router.post("/threads/{thread_id}/runs/{run_id}/stop", status_code=202, summary="Stop a run")
async def stop_run(
    caller: Annotated[Caller, Depends(caller_of)], run_id: RunId, wanted: StopRequest | None = None
) -> CommandId:
    """Tell a run, and the runs that it started, to stop. The run may also begin up to ten minutes later.

    It has stopped when GET /v1/commands/ID returns `ended`.
    """
    return await caller.give(run_id, wanted or StopRequest())


@router.post("/threads/{thread_id}/stop", status_code=202, summary="Stop a thread's runs", responses=OF_THREAD)
async def stop_thread(caller: Annotated[Caller, Depends(caller_of)], wanted: StopRequest | None = None) -> CommandIds:
    """Tell each open run of a thread to stop."""
    return await caller.give_all(wanted or StopRequest())


@router.post("/threads/{thread_id}/runs/{run_id}/steer", status_code=202, summary="Give a run a message")
async def steer_run(caller: Annotated[Caller, Depends(caller_of)], run_id: RunId, message: SteerRequest) -> CommandId:
    """Send a run a user's message. It becomes part of the conversation when the run takes it up, between two tools.

    GET /v1/commands/ID then returns `acknowledged`, or `refused` if the program takes no messages.
    """
    return await caller.give(run_id, message)


@router.post(
    "/threads/{thread_id}/steer", status_code=202, summary="Give a thread's runs a message", responses=OF_THREAD
)
async def steer_thread(caller: Annotated[Caller, Depends(caller_of)], message: SteerRequest) -> CommandIds:
    """Send a user's message to each open run of a thread."""
    return await caller.give_all(message)


@router.post(
    "/threads/{thread_id}/answers/{answer_id}",
    status_code=202,
    summary="Answer what a thread waits for",
    responses=documented("unknown-thread", "conflict", "too-large"),
)
async def answer(
    caller: Annotated[Caller, Depends(caller_of)],
    answer_id: Annotated[str, Path(max_length=100, description="As `GET /v1/runs?status=waiting` gives it.")],
    reply: AnswerRequest,
) -> CommandId:
    """Answer an approval or a question. The first answer counts; later ones are `refused`, with the name of the first.

    The answer is kept until a run takes it up, for 14 days at most.
    """
    if len(encode(reply.value)) > ANSWER_BYTES:
        raise Problem("too-large", f"an answer has at most {ANSWER_BYTES:,} bytes of JSON")
    waiting = await caller.waiting()
    questions = [(thread, asked) for thread in waiting for asked in thread.asked if asked["answer_id"] == answer_id]
    key, run_id, payload = caller.key, "", {"answer_id": answer_id, "value": reply.value}
    if questions:
        (thread, asked) = questions[0]
        key, run_id = thread.thread, thread.run_id
        payload |= {"asked": asked, "dialect": thread.dialect}
    elif not await caller.open_runs():
        raise await caller.refusal(f"nothing of it waits for the answer {answer_id!r:.100}")
    return CommandId(command_id=await give(caller, key, run_id, reply, payload))


@router.get("/threads/{thread_id}/answers", summary="Answers that no run has taken up")
@facts(strangers=200)
async def open_answers(
    gateway: TheGateway, commands: TheCommands, principal: Sender, thread_id: ThreadId, tenant: Whose = None
) -> OpenAnswers:
    """Return the answers to a thread's open questions that no run has taken up.

    A run that takes one up reports it with an event.
    """
    waiting = await (await caller_of(gateway, principal, thread_id, tenant)).waiting()
    open_questions = {asked["answer_id"] for thread in waiting for asked in thread.asked}
    given = [open_answer for of in waiting for open_answer in commands.open_answers(of.thread.tenant, of.thread_id)]
    return OpenAnswers(answers=[answer.record for answer in given if answer.payload["answer_id"] in open_questions])


@router.get("/commands/{command_id}", summary="The state of a command", responses=documented("not-found"))
async def read_command(
    commands: TheCommands, principal: Controller, command_id: Annotated[str, Path(max_length=100)]
) -> CommandState:
    """Return the state of a command.

    `requested`, `acknowledged` by the run's program, `ended`; `completed`, if the run was over before the command
    reached it; `unanswered` after 30 s; `refused`, with the reason.
    """
    await commands.ready()
    known = commands.standing(command_id)
    if known is None or principal.tenant not in (None, known.command.tenant):
        raise Problem("not-found", f"there is no command {command_id!r:.100} of the last minutes")
    command, standing = known.command, known.standing
    told = {name: getattr(command, name) for name in ("kind", "thread_id", "run_id", "by", "at")}
    return CommandState(command_id=command.id, state=standing.state, since=standing.at, reason=standing.reason, **told)


@router.get("/control", summary="Commands for publishers", response_class=Response, responses=STREAMED)
@facts(endless=True)
async def control_stream(gateway: TheGateway, commands: TheCommands, principal: Listening, still: Standing) -> Response:
    """Stream the commands to runs of the caller's tenant: first those that a run may still obey, then new ones."""
    await commands.ready()
    if not commands.has_room(principal.tenant):
        raise later("rate-limited", "the tenant has its share of streams of commands")
    return EventStream(_frames(commands, principal.tenant, still), gateway.metrics)


async def _frames(commands: Commands, tenant: str | None, still: Still) -> AsyncGenerator[bytes]:
    yield comment("commands to runs", RETRY_MS)
    async for value in commands.stream(tenant, KEEP_ALIVE):
        if not await still():
            return
        yield comment("nothing new") if value is None else frame(value, name="command")
