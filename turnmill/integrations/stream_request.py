"""Find the run of an event stream from its request, and shorten that request for the run's first record."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

import orjson

from turnmill.pools import STREAMED
from turnmill.remembered import Remembered

REQUEST_BYTES: Final = 256 * 1024  # most bytes of a request in a run's first record
FIELD_BYTES: Final = 4 * 1024  # most bytes of each other field besides the messages, if a request is too large

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The request of an event stream: ASGI scope, headers by lower-case name, body if it was small JSON."""

    scope: Scope
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run of an event stream; `info` as in RunInfo. `dialect`, `agent_id`: None stands for the middleware's."""

    thread_id: str
    run_id: str | None = None
    agent_id: str | None = None
    dialect: str | None = None
    tenant: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


Identify = Callable[[StreamRequest], RunIdentity | None]


def from_request(request: StreamRequest) -> RunIdentity:
    """Return the thread named by the header X-Thread-Id or the body (`id`, as `useChat` sends it), or a new one.

    Both come from the client: an application with several users must pass a function that checks them.
    """
    body = request.body if isinstance(request.body, dict) else {}
    named = (request.headers.get("x-thread-id"), body.get("thread_id"), body.get("threadId"), body.get("id"))
    thread_id = next((name for name in named if isinstance(name, str) and name), None)
    return RunIdentity(thread_id or str(uuid4()))


class RunInputs:
    """The run of an AG-UI request: the RunAgentInput's `runId`, which clients make anew for each run.

    An id that comes again in its thread becomes RUN.2, RUN.3, since otherwise its events would be taken for duplicates.
    """

    def __init__(self) -> None:
        self._named: Remembered[tuple[str, str], int] = Remembered(STREAMED)

    def __call__(self, request: StreamRequest) -> RunIdentity:
        return self.named(from_request(request), request.body)

    def named(self, identity: RunIdentity, run_input: Any) -> RunIdentity:
        """Return the same thread, with the run that the input names, if any."""
        body = run_input if isinstance(run_input, dict) else {}
        named = next((name for name in (body.get("runId"), body.get("run_id")) if isinstance(name, str) and name), None)
        return identity if named is None else replace(identity, run_id=self._fresh(identity, named))

    def _fresh(self, identity: RunIdentity, named: str) -> str:
        key = identity.thread_id, named
        number = (self._named.pop(identity.tenant, key) or 0) + 1
        self._named.put(identity.tenant, key, number)
        return named if number == 1 else f"{named}.{number}"


def kept(body: Any) -> Any:
    """Return a request in the form for a run's first record.

    A large one is reduced to the messages from the assistant's last one on, and other short fields; None if that is
    still too large.
    """
    if len(orjson.dumps(body)) <= REQUEST_BYTES:
        return body
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        return None
    answers = [n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "assistant"]
    newest = {"messages": messages[answers[-1] :] if answers else messages}
    beside = {key: value for key, value in body.items() if len(orjson.dumps(value)) <= FIELD_BYTES}
    return next(
        (short for short in ({**body, **newest}, beside | newest) if len(orjson.dumps(short)) <= REQUEST_BYTES), None
    )
