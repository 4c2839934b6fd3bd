"""Who gives a command over HTTP, to which thread, and what the body of the request says."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Controller
from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.control.commands import Commands, new_command
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.problems import Problem, later
from pipeline.gateway.routing import ThreadId, Whose
from pipeline.gateway.state import Gateway, TheGateway, unknown_thread
from pipeline.observability.audit import about, audit
from pipeline.stores.threads.reading import Waiting, WaitingWanted, run_events, waiting_threads
from topics.thread_key import ThreadKey
from turnmill.control.record import ANSWER, BUDGET, NOW, STEER, STOP
from turnmill.identity import thread_uuid
from turnmill.limits import STEER_CHARACTERS

MAX_THREADS: Final = 100  # with the same name, of several tenants

By = Annotated[
    str | None, Field(min_length=1, max_length=200, description="Who wants it; by default the token's name.")
]


class StopRequest(BaseModel, extra="forbid"):
    """The body of a request to stop a run."""

    mode: Annotated[Literal["now", "after_turn"], Field(description="`after_turn`: it finishes what it is saying.")] = (
        "now"
    )
    by: By = None


class SteerRequest(BaseModel, extra="forbid"):
    """A message to a run that is under way."""

    text: Annotated[str, Field(min_length=1, max_length=STEER_CHARACTERS)]
    by: By = None


class AnswerRequest(BaseModel, extra="forbid"):
    """An answer to what a thread waits for."""

    value: Annotated[
        Any, Field(description='To an approval: true, false, or {"approved", "reason"?, "args"?}; else any JSON value.')
    ]
    by: By = None


class CommandId(BaseModel):
    """The command's id; GET /v1/commands/ID returns its state."""

    command_id: str


class CommandIds(BaseModel):
    """The ids of the commands, one for each open run; `command_id` is set if there is only one."""

    command_id: str | None
    command_ids: list[str]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, and the thread of the request: its name, its tenant, and its key."""

    gateway: Gateway
    principal: Principal
    name: str
    tenant: str | None
    key: ThreadKey

    async def open_runs(self) -> list[str]:
        """Return the thread's open runs, without imported ones, of which no program hears."""
        runs = await self.gateway.service(RunWatch).open_runs()
        return [run.key.run_id for run in runs if run.thread == self.key and not run.imported]

    async def waiting(self) -> list[Waiting]:
        """Return the thread if it waits for an answer; several, if tenants share the name and none was given."""
        wanted = WaitingWanted(tenant=self.tenant, thread=(self.key.thread_id, self.name))
        stored = await waiting_threads(await self.gateway.store(), wanted, MAX_THREADS)
        return [*self.gateway.service(Budgets).waiting(wanted), *stored]

    async def refusal(self, nothing: str) -> Problem:
        """Return why no command can be given: the thread is stored (409), and `nothing` says of what; or it is not."""
        if not await run_events(await self.gateway.store(), self.key):
            return unknown_thread(self.name)
        return Problem("conflict", f"thread {self.name!r:.200} is stored, and {nothing}")

    async def give(self, run_id: str, body: StopRequest | SteerRequest) -> CommandId:
        """Give a command to a run, which may be over already."""
        command_id = await give(self, self.key, run_id, body)
        stored = await run_events(await self.gateway.store(), self.key)
        if run_id in stored and run_id not in await self.open_runs():
            await self.gateway.service(Commands).over(command_id, "the run was over")
        return CommandId(command_id=command_id)

    async def give_all(self, body: StopRequest | SteerRequest) -> CommandIds:
        """Give a command to each open run. Raises Problem where there is none."""
        ids = [await give(self, self.key, run_id, body) for run_id in await self.open_runs()]
        if not ids:
            raise await self.refusal("no run of it is open: GET /v1/runs lists the open ones")
        return CommandIds(command_id=ids[0] if len(ids) == 1 else None, command_ids=ids)


async def caller_of(gateway: TheGateway, principal: Controller, thread_id: ThreadId, tenant: Whose = None) -> Caller:
    """Return the caller of a request for a thread, once the gateway has read the earlier commands."""
    bounded = principal.bounded(tenant)
    await gateway.service(Commands).ready()
    key = ThreadKey.of(thread_uuid(thread_id, bounded)[0], bounded)
    return Caller(gateway, principal, thread_id, bounded, key)


async def give(
    caller: Caller,
    key: ThreadKey,
    run_id: str,
    body: StopRequest | SteerRequest | AnswerRequest,
    payload: dict[str, Any] | None = None,
) -> str:
    """Publish a command by this caller to a run of this thread, and return its id. Raises Problem, BrokerError."""
    principal = caller.principal
    mode, by = NOW, body.by or principal.name
    if by == BUDGET:
        raise Problem("bad-request", f"{BUDGET!r} is the name of budgets that stop runs: say who wants it, as `by`")
    if isinstance(body, StopRequest):
        kind, does, mode = STOP, "is told to stop", body.mode
    elif isinstance(body, SteerRequest):
        kind, does, payload = STEER, "is given a message", {"text": body.text}
    else:
        kind, does = ANSWER, "is answered"
    command = new_command(kind, (key.thread_id, key.tenant), run_id, mode, by, payload)
    commands = caller.gateway.service(Commands)
    if not commands.has_room_for(command):
        raise later("rate-limited", "the tenant has its share of commands that no run has taken up yet")
    extra = about(key, f"run.{kind}")
    audit.info("run %s of thread %s %s, by %s for %r", run_id, key.text, does, principal.text, by, extra=extra)
    await commands.give(command)
    return command.id
