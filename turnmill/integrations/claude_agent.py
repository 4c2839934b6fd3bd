"""Publish runs of the Claude Agent SDK in the wire `claude-code`: of `query()`, and of clients with a conversation.

    async for message in turnmill.claude_query(prompt="What's the weather?", options=options):
        ...
    async with turnmill.claude_client(ClaudeSDKClient(options)) as client:
        ...  # client.query(…), client.receive_response(), as ever

Each prompt with all messages up to its `ResultMessage` is a run. The SDK is imported when `claude_query` is called.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from importlib import import_module
from typing import Any, TypeVar
from uuid import uuid4

from turnmill.capture.runs import PassingRun
from turnmill.capture.runtime import runtime
from turnmill.control.record import AFTER_TURN, Command
from turnmill.control.stopping import RunStopped, Stopping

AGENT = "claude-code"  # the default of `agent_id`: the SDK does not say which agent it runs
INTERRUPT_TIMEOUT = 2.0  # seconds for the SDK's program to end its answer; else the messages of a query end without it
SUMS = {"total_cost_usd": "total_cost_usd", "modelUsage": "model_usage"}  # since the SDK's program began

Client = TypeVar("Client")

log = logging.getLogger("turnmill.publish.publisher")


async def claude_query(
    *, prompt: Any, thread_id: str | None = None, agent_id: str = AGENT, tenant: str | None = None, **options: Any
) -> AsyncGenerator[Any]:
    """Yield the messages of `claude_agent_sdk.query(prompt=prompt, **options)` unchanged, and publish them.

    Args:
        prompt: A text, or an asynchronous iterable of messages.
        thread_id: By default the session's id, which stays the same when a session is resumed.
        agent_id: The agent.
        tenant: The tenant.
        options: Arguments of the SDK's `query`.
    """
    conversation = _Conversation(thread_id, agent_id, tenant)
    messages = import_module("claude_agent_sdk").query(prompt=conversation.kept_open(prompt), **options)
    try:
        async with aclosing(messages) as each:
            async for message in conversation.stopping.each(each):
                conversation.hear(message)
                if conversation.followed is not None:
                    raise conversation.followed
                yield message
    except RunStopped:
        conversation.stopped()
        raise
    except Exception:
        conversation.end("error")
        raise
    except (asyncio.CancelledError, GeneratorExit):
        conversation.end("aborted")
        raise
    conversation.end("complete")  # without a result it counts as interrupted anyway


def claude_client(
    client: Client, *, thread_id: str | None = None, agent_id: str = AGENT, tenant: str | None = None
) -> Client:
    """Return the same `ClaudeSDKClient`, not yet connected; it is published from now on. See `claude_query`."""
    conversation = _Conversation(thread_id, agent_id, tenant)
    given: Any = client
    given.connect = conversation.prompted(given.connect)
    given.query = conversation.prompted(given.query)
    given.receive_messages = conversation.heard(given.receive_messages)
    given.disconnect = conversation.left(given.disconnect)
    conversation.interrupt = getattr(given, "interrupt", None)
    return client


class _Conversation:
    """A conversation: the prompts that wait for an answer, and the open run. Its methods raise nothing."""

    def __init__(self, thread_id: str | None, agent_id: str, tenant: str | None) -> None:
        self._thread_id, self._agent_id, self._tenant = thread_id, agent_id, tenant
        self._asked: deque[Any] = deque()  # lines of prompts that wait
        self._run: PassingRun | None = None
        self._sums: dict[str, Any] = {}  # of the SDK's program in its last result: they go on in the next run
        self.stopping = Stopping()  # of a query's messages
        self.followed: RunStopped | None = None  # the stop after which the SDK's program ended its answer
        self._input: ClaudeInput | None = None  # of a query
        self.interrupt: Callable[[], Awaitable[None]] | None = None  # of a client
        self._interrupted: set[asyncio.Task[None]] = set()
        runtime().prepare()

    def noted(self, prompt: Any) -> Any:
        """Note a prompt and return it; each of several messages is noted when the SDK takes it."""
        if isinstance(prompt, AsyncIterable):
            return self._each(prompt)
        if isinstance(prompt, str):
            self._ask({"type": "user", "message": {"role": "user", "content": prompt}, "parent_tool_use_id": None})
        return prompt

    def kept_open(self, prompt: Any) -> Any:
        """Return a query's prompt as messages whose input stays open for an interrupt, if commands are received."""
        noted = self.noted(prompt)
        if not runtime().hears or not isinstance(noted, str | AsyncIterable):
            return noted
        self._input = ClaudeInput()
        return self._input.lines(alone(noted) if isinstance(noted, str) else noted)

    def prompted(self, method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Wrap a method whose first argument is a prompt, or nothing."""

        @functools.wraps(method)
        async def asked(*arguments: Any, **named: Any) -> None:
            if arguments:
                arguments = (self.noted(arguments[0]), *arguments[1:])
            elif "prompt" in named:
                named["prompt"] = self.noted(named["prompt"])
            await method(*arguments, **named)

        return asked

    def heard(self, method: Callable[[], AsyncIterator[Any]]) -> Callable[[], AsyncIterator[Any]]:
        """Wrap a method that returns messages; a reader that stops early may continue later."""

        @functools.wraps(method)
        async def messages() -> AsyncIterator[Any]:
            try:
                async for message in method():
                    self.hear(message)
                    yield message
            except Exception:
                self.end("error")
                raise

        return messages

    def left(self, method: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Wrap a method that ends the conversation."""

        @functools.wraps(method)
        async def disconnected() -> None:
            try:
                await method()
            finally:
                self.end("aborted")
                self._sums = {}

        return disconnected

    def hear(self, message: Any) -> None:
        """Publish a message of the SDK."""
        try:
            run = self._run or self._begun(message)
            run.send(message)
            if type(message).__name__ == "ResultMessage":
                told = {key: getattr(message, name, None) for key, name in SUMS.items()}
                self._sums = {key: value for key, value in told.items() if value}
                if self._input is not None:
                    self._input.answered.set()
                self.followed = None if run.stop is None else run.stop.error
                if self.followed is not None:
                    self.stopped()
                else:
                    self.end("error" if getattr(message, "is_error", False) else "complete")
        except Exception:  # failures here must not affect the program
            log.exception("a run of the Claude Agent SDK is not published as a whole")

    def end(self, end: str) -> None:
        """End the open run."""
        if self._run is not None:
            self._run.end(end)
            self._run = None

    def stopped(self) -> None:
        """Publish that the open run follows the command to stop, and end it."""
        if self._run is not None:
            self._run.stopped()
            self._run = None

    def _on_stop(self, command: Command) -> None:
        """Interrupt the SDK's program, which reports its own end; after the turn there is nothing to interrupt."""
        if command.mode == AFTER_TURN:
            return
        if self.interrupt is not None:
            task = asyncio.ensure_future(self._interrupt(self.interrupt))
            self._interrupted.add(task)
            task.add_done_callback(self._interrupted.discard)
        elif self._input is not None and self._input.is_open:
            self._input.stopping.tell(command)
            asyncio.get_running_loop().call_later(INTERRUPT_TIMEOUT, self.stopping.tell, command)
        else:
            self.stopping.tell(command)

    async def _interrupt(self, interrupt: Callable[[], Awaitable[None]]) -> None:
        try:
            await interrupt()
        except Exception:  # it is disconnected
            log.warning("a run of the Claude Agent SDK could not be interrupted", exc_info=True)

    def _begun(self, message: Any) -> PassingRun:
        """Begin a run at its first message, which names the session, with the oldest prompt that waits."""
        data = getattr(message, "data", None)
        session = getattr(message, "session_id", None) or (data.get("session_id") if isinstance(data, dict) else None)
        self._run = runtime().run(
            thread_id=self._thread_id or session or str(uuid4()),
            agent_id=self._agent_id,
            dialect="claude-code",
            tenant=self._tenant,
        )
        if self._run.stop is not None:
            self._run.stop.in_loop(self._on_stop)
        if self._sums:
            self._run.send({"type": "turnmill.sums", **self._sums})
        if self._asked:
            self._run.send(self._asked.popleft())
        return self._run

    def _ask(self, line: Any) -> None:
        """Note a prompt; while a run is open it is a message in that run."""
        if self._input is not None:
            self._input.answered.clear()
        if self._run is None:
            self._asked.append(line)
        else:
            self._run.send(line)

    async def _each(self, prompts: AsyncIterable[Any]) -> AsyncIterator[Any]:
        async for line in prompts:
            self._ask(dict(line) if isinstance(line, dict) else line)
            yield line


class ClaudeInput:
    """The prompts of a query, followed by an interrupt if a command stops the run before its answer is complete.

    The SDK offers no interrupt for a query, and ends its program only 5 s after the messages. But it passes on what a
    stream of prompts yields, so an interrupt can follow them, as long as the stream has not ended.
    """

    def __init__(self) -> None:
        self.stopping = Stopping()
        self.answered = asyncio.Event()  # no prompt waits for its answer
        self.is_open = True

    async def lines(self, prompts: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Yield the prompts, and end once they are answered."""
        try:
            async for line in self.stopping.each(aiter(prompts)):
                yield line
            await self.stopping.during(self.answered.wait)
        except RunStopped as stopped:
            request = {"subtype": "interrupt"}
            yield {"type": "control_request", "request_id": f"turnmill-{stopped.command_id}", "request": request}
        finally:
            self.is_open = False


async def alone(prompt: Any) -> AsyncIterator[Any]:
    """Yield a prompt in the form that the SDK gives a text."""
    message = {"role": "user", "content": prompt}
    yield {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None}
