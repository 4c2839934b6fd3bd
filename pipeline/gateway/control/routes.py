"""Stopping runs over HTTP, what became of it, and the stream by which publishers hear of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from pipeline.assembly.run_list import ListedRun
from pipeline.gateway.connections import TheGateway, unknown_thread
from pipeline.gateway.control.commands import Commands, new_command
from pipeline.gateway.live.event_stream import EventStream, comment, frame
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.security import Controller, Principal, Sender
from pipeline.gateway.threads import ThreadId, Whose
from pipeline.observability.audit import about, audit
from topics.thread_key import ThreadKey
from turnmill.control_record import STOP
from turnmill.identity import thread_uuid
from turnmill.limits import NAMED_CHARACTERS

KEEP_ALIVE: Final = 15.0  # seconds
RETRY_MS: Final = 2_000

router = APIRouter(prefix="/v1", tags=["control"])

RunId = Annotated[str, Path(min_length=1, max_length=NAMED_CHARACTERS)]


class Wanted(BaseModel):
    """How a run is to stop."""

    model_config = ConfigDict(extra="forbid")

    mode: Annotated[
        Literal["now", "after_turn"], Field(description="`after_turn`: what it says now, it says to its end.")
    ] = "now"
    by: Annotated[
        str | None, Field(min_length=1, max_length=200, description="Who wants it; by default the token's name.")
    ] = None


class Given(BaseModel):
    """The command's id: GET /v1/commands/ID tells what becomes of it."""

    command_id: str


class AllGiven(BaseModel):
    """The ids of the commands, one for each open run."""

    command_ids: list[str]


class CommandState(BaseModel):
    """What became of a command; times in epoch ms."""

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


@router.post(
    "/threads/{thread_id}/runs/{run_id}/stop",
    status_code=202,
    summary="Stop a run",
    responses=documented("forbidden"),
)
async def stop_run(
    request: Request,
    gateway: TheGateway,
    principal: Controller,
    thread_id: ThreadId,
    run_id: RunId,
    wanted: Wanted | None = None,
    tenant: Whose = None,
) -> Given:
    """Tell a run to stop, which may begin within ten minutes yet.

    It has stopped when GET /v1/commands/ID says `ended`.
    """
    commands, key = commands_of(request), _key(principal, thread_id, tenant)
    await commands.ready()
    [command_id] = await _stop(commands, principal, key, [run_id], wanted or Wanted())
    store = await gateway.store()
    if run_id in await store.run_events(key) and not await _is_open(gateway, key, run_id):
        await commands.over(command_id, "the run was over")
    return Given(command_id=command_id)


@router.post(
    "/threads/{thread_id}/stop",
    status_code=202,
    summary="Stop a thread's runs",
    responses=documented("unknown-thread", "forbidden"),
)
async def stop_thread(
    request: Request,
    gateway: TheGateway,
    principal: Controller,
    thread_id: ThreadId,
    wanted: Wanted | None = None,
    tenant: Whose = None,
) -> AllGiven:
    """Tell each open run of a thread to stop."""
    commands, key = commands_of(request), _key(principal, thread_id, tenant)
    await commands.ready()
    runs = [run.key.run_id for run in await gateway.run_watch.open_runs() if _of(run) == key]
    if not runs:
        raise unknown_thread(thread_id)
    return AllGiven(command_ids=await _stop(commands, principal, key, runs, wanted or Wanted()))


@router.get(
    "/commands/{command_id}", summary="What became of a command", responses=documented("not-found", "forbidden")
)
async def read_command(
    request: Request, principal: Controller, command_id: Annotated[str, Path(max_length=100)]
) -> CommandState:
    """Return its state.

    `requested`, `acknowledged` by the run's program, `ended`; `completed`, where the run was over before it heard;
    `unanswered` after 30 s; `refused`, with the reason.
    """
    commands = commands_of(request)
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
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **documented("forbidden")},
)
async def control_stream(request: Request, gateway: TheGateway, principal: Sender) -> Response:
    """Stream the commands to runs of the caller's tenant: those that may be heeded yet, then each as it is given."""
    commands = commands_of(request)
    await commands.ready()
    return EventStream(_frames(commands, principal.tenant), gateway.count_cut)


async def _frames(commands: Commands, tenant: str | None) -> AsyncGenerator[bytes]:
    yield comment("commands to runs", RETRY_MS)
    async for value in commands.stream(tenant, KEEP_ALIVE):
        yield comment("nothing new") if value is None else frame(value, name="command")


def _key(principal: Principal, thread_id: str, tenant: str | None) -> ThreadKey:
    bounded = principal.bounded(tenant)
    return ThreadKey.of(thread_uuid(thread_id, bounded)[0], bounded)


def _of(run: ListedRun) -> ThreadKey:
    tenant, thread_id, _ = run.key
    return ThreadKey.of(thread_id, tenant)


async def _is_open(gateway: TheGateway, key: ThreadKey, run_id: str) -> bool:
    return any(run.key.run_id == run_id and _of(run) == key for run in await gateway.run_watch.open_runs())


async def _stop(commands: Commands, principal: Principal, key: ThreadKey, runs: list[str], wanted: Wanted) -> list[str]:
    ids = []
    for run_id in runs:
        command = new_command(STOP, (key.thread_id, key.tenant), run_id, wanted.mode, wanted.by or principal.name)
        await commands.give(command)
        audit.info("run %s of thread %s is told to stop, by %s", run_id, key.text, principal.text, extra=about(key))
        ids.append(command.id)
    return ids
