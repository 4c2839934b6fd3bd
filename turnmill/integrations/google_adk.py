"""A plugin for Google's ADK that publishes the events of its runners while they run.

    Runner(…, plugins=[AdkPlugin()])        # or App(…, plugins=[AdkPlugin()])
    adk web --extra_plugins turnmill.AdkPlugin

One invocation of a runner is a run, of the dialect `google-adk`. Its events are passed to a thread with the publisher,
so that nothing here waits or raises in the runner's thread. ADK 1.7 and newer.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NoReturn
from uuid import uuid4

from turnmill.capture.passing import OwnFailures
from turnmill.capture.runs import PassingRun
from turnmill.capture.runtime import runtime
from turnmill.control.record import AFTER_TURN, Command
from turnmill.control.stopping import RunStopped
from turnmill.errors import CallerError
from turnmill.identity import is_uuid
from turnmill.integrations.stream_request import RunIdentity

try:
    _Base: Any = import_module("google.adk.plugins.base_plugin").BasePlugin
except ImportError:  # making a plugin then raises CallerError
    _Base = None

DIALECT: Final = "google-adk"
USER: Final = "user"
CLOSE_TIMEOUT: Final = 4.0  # seconds; ADK waits for 5

Callback = Callable[..., Awaitable[None]]

log = logging.getLogger("turnmill.publish.publisher")

# (thread, run) of the current tool call, in which an agent may run in another session; each call has its context.
calling: ContextVar[tuple[str, str] | None] = ContextVar("turnmill_calling", default=None)


@dataclass(slots=True)
class _OpenInvocation:
    """An open invocation.

    `answered`: its newest event was an answer that may be the last; `failed`: a model or a tool has raised, which ends
    the invocation unless another plugin handles it.
    """

    run: PassingRun
    answered: bool = False
    failed: str | None = None
    stopped: bool = False


def from_session(invocation_context: Any) -> RunIdentity:
    """Return the session as thread, the root agent as agent.

    The thread is the session's id if that is a UUID, as ADK makes them, else APP:USER:SESSION, since ids that people
    choose are only unique for one user of one app.
    """
    session = invocation_context.session
    agent = invocation_context.agent
    root = getattr(agent, "root_agent", None) or agent
    thread = session.id if is_uuid(session.id) else f"{session.app_name}:{session.user_id}:{session.id}"
    return RunIdentity(thread, agent_id=getattr(root, "name", None) or session.app_name)


def _quiet(callback: Callback) -> Callback:
    """Wrap a callback so that its failures are logged: ADK would end the invocation for them."""

    @functools.wraps(callback)
    async def quiet(self: AdkPlugin, **arguments: Any) -> None:
        try:
            await callback(self, **arguments)
        except Exception:
            self._log(f"{callback.__name__}: the rest of an invocation is not published")

    return quiet


class AdkPlugin(_Base or object):  # type: ignore[misc]  # the class exists without ADK, too
    """The plugin. `identify` returns the run of an invocation, None: it is not published; `name`: the plugin's name.

    Put it first in the list: ADK does not call plugins after one that changes an event. Raises CallerError if ADK is
    not installed.
    """

    def __init__(self, name: str = "turnmill", *, identify: Callable[[Any], RunIdentity | None] = from_session) -> None:
        if _Base is None:
            raise CallerError("AdkPlugin needs google-adk 1.7 or newer")
        super().__init__(name=name)
        self._identify = identify
        self._open: dict[str, _OpenInvocation] = {}
        self._log = OwnFailures(log)
        self._has_run_errors = hasattr(_Base, "on_run_error_callback")
        runtime().prepare()

    @_quiet
    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Begin an invocation, whose session has the user's message already."""
        identity = self._identify(invocation_context)
        if identity is None:
            return
        key = invocation_context.invocation_id
        run = runtime().run(
            thread_id=identity.thread_id,
            agent_id=identity.agent_id or invocation_context.agent.name,
            dialect=identity.dialect or DIALECT,
            run_id=identity.run_id or str(uuid4()),
            tenant=identity.tenant,
            info={**self._parent(), **_asked(invocation_context), **identity.info},
        )
        self._open[key] = _OpenInvocation(run)
        # No callback comes if a task is cancelled, or, before ADK 2, fails. Then the context is garbage-collected.
        weakref.finalize(invocation_context, self._gone, key, run).atexit = False

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Publish an event before ADK stores and yields it. Raises RunStopped if the run is told to stop now."""
        await self._publish(invocation_context=invocation_context, event=event)
        command = self._command(invocation_context)
        if command is None:
            return
        if command.mode != AFTER_TURN:
            self._stop(invocation_context, command)
        invocation = self._open[invocation_context.invocation_id]
        if not invocation.stopped:
            invocation.stopped = True
            invocation.run.heard()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Raise RunStopped where the run is told to stop, now or after the turn: ADK is about to begin the next one."""
        command = self._command(callback_context)
        if command is not None:
            self._stop(callback_context, command)

    def _command(self, context: Any) -> Command | None:
        invocation = self._open.get(context.invocation_id)
        return None if invocation is None or invocation.run.stop is None else invocation.run.stop.command

    def _stop(self, context: Any, command: Command) -> NoReturn:
        self._open.pop(context.invocation_id).run.stopped()
        raise RunStopped(command)

    @_quiet
    async def _publish(self, *, invocation_context: Any, event: Any) -> None:
        invocation = self._open.get(invocation_context.invocation_id)
        if invocation is not None:
            invocation.run.send(event)
            invocation.answered = bool(event.is_final_response()) and not event.partial
            invocation.failed = None

    @_quiet
    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """End a run that is complete, or whose reader has stopped early: ADK calls this in both cases.

        If the reader stops after an answer, the run is complete; after anything else it was abandoned. Only the
        exception that is being handled shows whether the reader has stopped.
        """
        invocation = self._open.pop(invocation_context.invocation_id, None)
        if invocation is not None:
            stopped = sys.exc_info()[0] is not None or getattr(invocation_context, "is_aborted", False)
            given_up = invocation.stopped or (stopped and not invocation.answered)
            invocation.run.end("aborted" if given_up else "complete")

    async def close(self) -> None:
        """Publish the rest when the runner is closed, as by a server that is ending by a signal."""
        await asyncio.to_thread(runtime().flush, CLOSE_TIMEOUT)

    @_quiet
    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """End a run that failed; the program gets the exception."""
        invocation = self._open.pop(invocation_context.invocation_id, None)
        if invocation is not None:
            _fail(invocation.run, str(error) or type(error).__name__)

    @_quiet
    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        """Note that a model raised; another plugin may handle the error."""
        self._note(callback_context, error)

    @_quiet
    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """Note that a tool's call begins, in which an agent may run."""
        invocation = self._open.get(tool_context.invocation_id)
        calling.set(None if invocation is None else (invocation.run.thread_id, str(invocation.run.run_id)))

    @_quiet
    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        """Note that a tool's call has ended."""
        calling.set(None)

    @_quiet
    async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception) -> None:
        """Note that a tool raised; another plugin may handle the error."""
        calling.set(None)
        self._note(tool_context, error)

    def _note(self, context: Any, error: BaseException) -> None:
        invocation = self._open.get(context.invocation_id)
        if invocation is not None:
            invocation.failed = str(error) or type(error).__name__

    def _parent(self) -> Mapping[str, Any]:
        """Return the run whose tool call started this invocation, if any."""
        parent = calling.get()
        return {} if parent is None else {"parent_thread_id": parent[0], "parent_run_id": parent[1]}

    def _gone(self, key: str, run: PassingRun) -> None:
        """Forget an invocation that was dropped without an end; any thread may collect it."""
        invocation = self._open.get(key)
        if invocation is not None and invocation.run is run:
            del self._open[key]
            if invocation.failed is not None and not self._has_run_errors:
                _fail(run, invocation.failed)
            else:
                run.end("aborted")


def _fail(run: PassingRun, why: str) -> None:
    """End a run as ADK's server reports a failure."""
    run.send({"error": why})
    run.end("error")


def _asked(context: Any) -> Mapping[str, Any]:
    """Return the user's message in the form of a request to ADK's server; a resumed invocation may have none."""
    newest = context.session.events[-1] if context.session.events else None
    if newest is None or newest.author != USER or newest.invocation_id != context.invocation_id:
        return {}
    content = newest.content and newest.content.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {} if content is None else {"request": {"newMessage": content}}
