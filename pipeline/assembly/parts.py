"""The pieces of a turn under construction: parts, messages, a turn that is over, and the run's context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from topics.json_text import Fields
from turnmill.labels import SINGLE
from turnmill.wire import traceparent

MessageKind = Literal["request", "response", "system"]
LONG_CHARACTERS: Final = 512  # longer texts are not joined with others until the end
# The keys of a record's `run` object and their types; `request`, which may be any JSON, is not among them.
RUN_INFO: Final[dict[str, type[str] | tuple[type, ...]]] = {
    "agent_name": str,
    "model_name": str,
    "provider_name": str,
    "parent_run_id": str,
    "parent_thread_id": str,
    "continues": str,
    "replaces": str,
    "started_at": (str, int, float),
    "external_id": str,
    "thread": (dict,),
    **dict.fromkeys(SINGLE, str),
    "tags": (list,),
}


# Constructors made by `dataclass` are interpreted even in a compiled module, so parts and messages have their own.
@dataclass(init=False, slots=True, eq=False)
class Part:
    """One message part. `chunks`: the deltas of its text (or arguments), some already joined."""

    fields: Fields
    chunks: list[str]
    done: bool

    def __init__(self, fields: Fields, chunks: list[str] | None = None, done: bool = False) -> None:  # noqa: FBT001, FBT002  # as `fork` gives them
        self.fields = fields
        self.chunks = [] if chunks is None else chunks
        self.done = done

    def compact(self) -> None:
        """Join the deltas so far.

        A long text is not joined again: if it grew each time, it would fragment the memory.
        """
        long = next((n for n, chunk in enumerate(self.chunks) if len(chunk) < LONG_CHARACTERS), len(self.chunks))
        if len(self.chunks) - long > 1:
            self.chunks[long:] = ["".join(self.chunks[long:])]


@dataclass(init=False, slots=True, eq=False)
class Message:
    """One request, response or system message; `at` in epoch ms.

    `request` of a response: the request that answers it, with tool returns, then user prompts. `closed`: no more parts.
    """

    kind: MessageKind
    at: int
    parts: list[Part]
    fields: Fields
    closed: bool
    request: Message | None
    first_part_at: int | None
    last_at: int | None
    keep_empty: bool  # the SDK itself keeps this message, although it has no parts
    usage_streamed: bool  # its tokens are in the telemetry already

    def __init__(  # its fields
        self,
        kind: MessageKind,
        at: int,
        parts: list[Part] | None = None,
        fields: Fields | None = None,
        closed: bool = False,  # noqa: FBT001, FBT002  # as `fork` gives them
        request: Message | None = None,
        first_part_at: int | None = None,
        last_at: int | None = None,
        keep_empty: bool = False,  # noqa: FBT001, FBT002
        usage_streamed: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        self.kind = kind
        self.at = at
        self.parts = [] if parts is None else parts
        self.fields = {} if fields is None else fields
        self.closed = closed
        self.request = request
        self.first_part_at = first_part_at
        self.last_at = last_at
        self.keep_empty = keep_empty
        self.usage_streamed = usage_streamed


class Turn(NamedTuple):
    """A finished agent turn, before `pipeline.assembly.agent_turn` makes JSON of it. Times in epoch ms."""

    end: str
    messages: list[Message]
    asides: list[Message]
    notes: Fields
    turn_fields: Fields
    total_usage: Fields | None
    error_text: str | None
    first_at: int
    last_at: int
    returns_by_call: bool


@dataclass(slots=True, eq=False)
class Context:
    """The facts about a run from the envelope and its `run` object."""

    thread_id: str
    run_id: str
    agent_id: str
    dialect: str
    tenant: str | None = None
    agent_name: str | None = None
    model_name: str | None = None
    provider_name: str | None = None
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    continues: str | None = None
    replaces: str | None = None
    started_at: str | int | float | None = None
    external_id: str | None = None
    traceparent: str | None = None  # the first one that came
    thread: Fields | None = None  # facts about its thread, from the publisher
    user: str | None = None  # this and the next ones: labels
    environment: str | None = None
    project: str | None = None
    branch: str | None = None
    tags: list[Any] | None = None
    imported: bool = False  # it is published after the fact
    request: Any = None

    def model(self) -> Fields:
        """Return the names of model and provider, as far as the publisher knows them."""
        known = {} if self.model_name is None else {"model_name": self.model_name}
        return known if self.provider_name is None else {**known, "provider_name": self.provider_name}

    def learn(self, info: Fields) -> list[str]:
        """Take over a record's `run` object; later records may add to it. Return the keys with a wrong type."""
        wrong = []
        for name, value in info.items():
            kind = RUN_INFO.get(name)
            if kind is None or value is None:
                continue
            if isinstance(value, kind) and not isinstance(value, bool):
                setattr(self, name, value)
            else:
                wrong.append(name)
        self.imported = self.imported or info.get("imported") is True
        if info.get("request") is not None:
            self.request = info["request"]
        if self.traceparent is None and traceparent.parse(info.get("traceparent")) is not None:
            self.traceparent = info["traceparent"]
        return wrong


def awaiting(response: Message, request: Message | None, call_id: str) -> Part | None:
    """Return the call of `response` that the next result with this id answers; `request` has the results so far.

    Several calls of a response may have one id, as from servers that number calls, and from joined histories. None if
    only one call has the id, or each of them has its result: then the newest result counts.
    """
    calls = [part for part in response.parts if part.done and part.fields.get("tool_call_id") == call_id]
    calls = [part for part in calls if part.fields["part_kind"] == "tool-call"]
    answers = request.parts if request is not None else []
    answered = sum(part.fields.get("tool_call_id") == call_id for part in answers)
    return calls[answered] if answered < len(calls) and len(calls) > 1 else None
