"""Stopping, steering and answering runs over HTTP, the state of such commands, and their stream for publishers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from pipeline.gateway.connections import Gateway, TheGateway, unknown_thread
from pipeline.gateway.control.commands import Commands, new_command
from pipeline.gateway.live.event_stream import EventStream, comment, frame
from pipeline.gateway.problems import RETRY_AFTER, Problem, documented
from pipeline.gateway.security import Controller, Listening, Principal, Sender, Standing, Still
from pipeline.gateway.threads import ThreadId, Whose
from pipeline.observability.audit import about, audit
from pipeline.stores.waiting import Waiting, WaitingWanted
from topics.thread_key import ThreadKey
from turnmill.control_record import ANSWER, BUDGET, NOW, STEER, STOP
from turnmill.envelope import encode
from turnmill.identity import thread_uuid
from turnmill.limits import ANSWER_BYTES, NAMED_CHARACTERS, STEER_CHARACTERS

KEEP_ALIVE: Final = 15.0  # seconds
RETRY_MS: Final = 2_000
OF_THREAD: Final = ("unknown-thread", "forbidden")
AGAIN: Final = {"Retry-After": str(RETRY_AFTER)}
WAITING_THREADS: Final = 100  # with the same name, of several tenants

router = APIRouter(prefix="/v1", tags=["control"])

RunId = Annotated[str, Path(min_length=1, max_length=NAMED_CHARACTERS)]


By = Annotated[
    str | None, Field(min_length=1, max_length=200, description="Who wants it; by default the token's name.")
]


class Wanted(BaseModel):
    """How to stop a run."""

    model_config = ConfigDict(extra="forbid")

    mode: Annotated[Literal["now", "after_turn"], Field(description="`after_turn`: it finishes what it is saying.")] = (
        "now"
    )
    by: By = None


class Message(BaseModel):
    """A message to a run that is under way."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=STEER_CHARACTERS)]
    by: By = None


class Reply(BaseModel):
    """An answer to what a thread waits for."""

    model_config = ConfigDict(extra="forbid")

    value: Annotated[
        Any, Field(description='To an approval: true, false, or {"approved", "reason"?, "args"?}; else any JSON value.')
    ]
    by: By = None


class Given(BaseModel):
    """The command's id; GET /v1/commands/ID returns its state."""

    command_id: str


class AllGiven(BaseModel):
    """The ids of the commands, one for each open run; `command_id` is set if there is only one."""

    command_id: str | None
    command_ids: list[str]


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


def commands_of(request: Request) -> Commands:
    """Return the gateway's commands."""
    found: Commands = request.app.state.commands
    return found


TheCommands = Annotated[Commands, Depends(commands_of)]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, and the thread of the request: its name, its tenant, and its key."""

    gateway: Gateway
    commands: Commands
    principal: Principal
    name: str
    tenant: str | None
    key: ThreadKey

    async def open_runs(self) -> list[str]:
        """Return the thread's open runs."""
        runs = await self.gateway.run_watch.open_runs()
        return [run.key.run_id for run in runs if run.thread == self.key]

    async def waiting(self) -> list[Waiting]:
        """Return the thread if it waits for an answer; several, if tenants share the name and none was given."""
        wanted = WaitingWanted(tenant=self.tenant, thread=(self.key.thread_id, self.name))
        stored = await (await self.gateway.store()).waiting(wanted, WAITING_THREADS)
        return [*self.gateway.budgets.waiting(wanted), *stored]

    async def give(self, run_id: str, said: Wanted | Message) -> Given:
        """Give a command to a run, which may be over already."""
        command_id = await _give(self, self.key, run_id, said)
        stored = await (await self.gateway.store()).run_events(self.key)
        if run_id in stored and run_id not in await self.open_runs():
            await self.commands.over(command_id, "the run was over")
        return Given(command_id=command_id)

    async def give_all(self, said: Wanted | Message) -> AllGiven:
        """Give a command to each open run. Raises Problem where there is none."""
        ids = [await _give(self, self.key, run_id, said) for run_id in await self.open_runs()]
        if not ids:
            raise unknown_thread(self.name)
        return AllGiven(command_id=ids[0] if len(ids) == 1 else None, command_ids=ids)


async def _caller(
    gateway: TheGateway, commands: TheCommands, principal: Controller, thread_id: ThreadId, tenant: Whose = None
) -> Caller:
    bounded = principal.bounded(tenant)
    await commands.ready()
    key = ThreadKey.of(thread_uuid(thread_id, bounded)[0], bounded)
    return Caller(gateway, commands, principal, thread_id, bounded, key)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/stop", status_code=202, summary="Stop a run", responses=documented("forbidden")
)
async def stop_run(caller: Annotated[Caller, Depends(_caller)], run_id: RunId, wanted: Wanted | None = None) -> Given:
    """Tell a run, and the runs that it started, to stop. The run may also begin up to ten minutes later.

    It has stopped when GET /v1/commands/ID returns `ended`.
    """
    return await caller.give(run_id, wanted or Wanted())


@router.post(
    "/threads/{thread_id}/stop", status_code=202, summary="Stop a thread's runs", responses=documented(*OF_THREAD)
)
async def stop_thread(caller: Annotated[Caller, Depends(_caller)], wanted: Wanted | None = None) -> AllGiven:
    """Tell each open run of a thread to stop."""
    return await caller.give_all(wanted or Wanted())


@router.post(
    "/threads/{thread_id}/runs/{run_id}/steer",
    status_code=202,
    summary="Give a run a message",
    responses=documented("forbidden"),
)
async def steer_run(caller: Annotated[Caller, Depends(_caller)], run_id: RunId, message: Message) -> Given:
    """Send a run a user's message. It becomes part of the conversation when the run takes it up, between two tools.

    GET /v1/commands/ID then returns `acknowledged`, or `refused` if the program takes no messages.
    """
    return await caller.give(run_id, message)


@router.post(
    "/threads/{thread_id}/steer",
    status_code=202,
    summary="Give a thread's runs a message",
    responses=documented(*OF_THREAD),
)
async def steer_thread(caller: Annotated[Caller, Depends(_caller)], message: Message) -> AllGiven:
    """Send a user's message to each open run of a thread."""
    return await caller.give_all(message)


@router.post(
    "/threads/{thread_id}/answers/{answer_id}",
    status_code=202,
    summary="Answer what a thread waits for",
    responses=documented("not-found", "too-large", "forbidden"),
)
async def answer(
    caller: Annotated[Caller, Depends(_caller)],
    answer_id: Annotated[str, Path(max_length=100, description="As `GET /v1/runs?status=waiting` gives it.")],
    reply: Reply,
) -> Given:
    """Answer an approval or a question. The first answer counts; later ones are `refused`, with the name of the first.

    The answer is kept until a run takes it up, for 14 days at most.
    """
    if len(encode(reply.value)) > ANSWER_BYTES:
        raise Problem("too-large", f"an answer has at most {ANSWER_BYTES:,} bytes of JSON")
    found = [(one, asked) for one in await caller.waiting() for asked in one.asked if asked["answer_id"] == answer_id]
    key, run_id, payload = caller.key, "", {"answer_id": answer_id, "value": reply.value}
    if found:
        (one, asked) = found[0]
        key, run_id = one.thread, one.run_id
        payload |= {"asked": asked, "dialect": one.dialect}
    elif not await caller.open_runs():
        raise Problem("not-found", f"nothing of this thread waits for the answer {answer_id!r:.100}")
    return Given(command_id=await _give(caller, key, run_id, reply, payload))


@router.get(
    "/threads/{thread_id}/answers", summary="Answers that no run has taken up", responses=documented("forbidden")
)
async def open_answers(
    gateway: TheGateway, commands: TheCommands, principal: Sender, thread_id: ThreadId, tenant: Whose = None
) -> OpenAnswers:
    """Return the answers to a thread's open questions that no run has taken up.

    A run that takes one up reports it with an event.
    """
    waiting = await (await _caller(gateway, commands, principal, thread_id, tenant)).waiting()
    open_questions = {asked["answer_id"] for one in waiting for asked in one.asked}
    given = [one for of in waiting for one in commands.open_answers(of.thread.tenant, of.thread_id)]
    return OpenAnswers(answers=[one.record for one in given if one.payload["answer_id"] in open_questions])


@router.get("/commands/{command_id}", summary="The state of a command", responses=documented("not-found", "forbidden"))
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
    return CommandState(
        command_id=command.id,
        kind=command.kind,
        thread_id=command.thread_id,
        run_id=command.run_id,
        by=command.by,
        at=command.at,
        state=standing.state,
        since=standing.at,
        reason=standing.reason,
    )


@router.get(
    "/control",
    summary="Commands for publishers",
    response_class=Response,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **documented("forbidden", "rate-limited"),
    },
)
async def control_stream(gateway: TheGateway, commands: TheCommands, principal: Listening, still: Standing) -> Response:
    """Stream the commands to runs of the caller's tenant: first those that a run may still obey, then new ones."""
    await commands.ready()
    if not commands.has_room(principal.tenant):
        raise Problem("rate-limited", "the tenant has its share of streams of commands", headers=AGAIN)
    return EventStream(_frames(commands, principal.tenant, still), gateway.count_cut)


async def _frames(commands: Commands, tenant: str | None, still: Still) -> AsyncGenerator[bytes]:
    yield comment("commands to runs", RETRY_MS)
    async for value in commands.stream(tenant, KEEP_ALIVE):
        if not await still():
            return
        yield comment("nothing new") if value is None else frame(value, name="command")


async def _give(
    caller: Caller,
    key: ThreadKey,
    run_id: str,
    said: Wanted | Message | Reply,
    payload: dict[str, Any] | None = None,
) -> str:
    principal = caller.principal
    mode, by = NOW, said.by or principal.name
    if by == BUDGET:
        raise Problem("bad-request", f"{BUDGET!r} is the name of budgets that stop runs: say who wants it, as `by`")
    if isinstance(said, Wanted):
        kind, does, mode = STOP, "is told to stop", said.mode
    elif isinstance(said, Message):
        kind, does, payload = STEER, "is given a message", {"text": said.text}
    else:
        kind, does = ANSWER, "is answered"
    command = new_command(kind, (key.thread_id, key.tenant), run_id, mode, by, payload)
    extra = about(key, f"run.{kind}")
    audit.info("run %s of thread %s %s, by %s for %r", run_id, key.text, does, principal.text, by, extra=extra)
    await caller.commands.give(command)
    return command.id
