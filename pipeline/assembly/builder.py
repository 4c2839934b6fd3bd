"""Builds the turns of a run in ThreadProtocol's terms; a dialect's handlers call it for each event.

A dialect opens, feeds and closes parts by the ids of its wire. Deltas are appended to a list and joined once.
Responses and the requests that answer them alternate in `messages`; a tool's return goes to the request after the
response that has its call. `pipeline.assembly.finish` turns all that into ThreadProtocol JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.assembly.parts import Context, Message, Part, Turn
from pipeline.turns import tokens
from pipeline.turns.asides import PURPOSE
from pipeline.turns.lineage import History
from topics.json_text import Fields, present

End = Literal["complete", "aborted", "error", "disconnected"]


@dataclass(slots=True, eq=False)
class Builder:
    """One run's turns under construction. `at` (epoch ms) is the time of the event being applied: the run sets it.

    `ended`: how the run ended, according to the stream's terminal event. `lossy`: events were lost before this one,
    so a delta may refer to a part whose start is missing; `torn`: some of them belong to the call of a model that goes
    on, if the dialect tells calls apart (`model_calls`). `scratch`: the dialect's notes on the run; it begins as
    an empty mapping, and `begin` may replace it by an object of the dialect.
    """

    context: Context
    at: int
    began_at: int = field(init=False)  # of the run
    first_at: int = field(init=False)  # of the turn
    last_at: int = field(init=False)
    started: bool = False  # the first event has been applied
    ended: End | None = None
    lossy: bool = False
    torn: bool = False
    scratch: Any = field(default_factory=dict)
    history: History | None = None  # the history that the stream itself repeats; None: the request repeats it

    messages: list[Message] = field(default_factory=list)
    asides: list[Message] = field(default_factory=list)  # responses beside the answer
    response: Message | None = None
    open_text: dict[str, Part] = field(default_factory=dict)
    open_thinking: dict[str, Part] = field(default_factory=dict)
    calls: dict[str, tuple[Message, Part]] = field(default_factory=dict)  # the newest of each id, with its response
    orphans: dict[str, Fields] = field(default_factory=dict)  # returns that came before their calls
    error_text: str | None = None
    notes: Fields = field(default_factory=dict)  # `meta:*` keys of the turn
    total_usage: Fields | None = None
    turn_fields: Fields = field(default_factory=dict)  # agent-turn fields that a dialect sets itself
    returns_by_call: bool = True  # tool returns are sorted by their calls

    telemetry: list[tuple[int, str, Any]] = field(default_factory=list)  # (ms, data-sys-*, data) until it is collected
    user_turns: list[Fields] = field(default_factory=list)  # finished ThreadProtocol UserTurns
    agent_turns: list[Turn] = field(default_factory=list)  # finished agent turns of this run
    native: list[Fields] = field(default_factory=list)  # turns that came as ThreadProtocol
    agents: list[Fields] = field(default_factory=list)  # AgentConfig objects besides the run's own
    children: list[Builder] = field(default_factory=list)  # of sub-agents, whose turns form threads of their own
    links: list[Fields] = field(default_factory=list)  # {"from"?, "thread_id", "relation", "metadata"?}
    thread: Fields = field(default_factory=dict)  # title, metadata, ended_at
    asked: Fields | None = None  # the configuration of the model's call, if the stream itself reports it
    steers: list[tuple[Message | None, Message]] = field(default_factory=list)  # messages of users to the open run
    facts_only: bool = False  # a run without messages makes no agent turn
    scattered: bool = False  # its turns are those of its children, which have other threads and runs

    def __post_init__(self) -> None:
        self.began_at = self.first_at = self.last_at = self.at

    def compact(self) -> None:
        """Join the deltas so far: a list of short texts takes three times as much memory."""
        for message in self.messages:
            for part in message.parts:
                part.compact()
        for child in self.children:
            child.compact()

    # ---- responses and requests

    def open_response(self, **fields: Any) -> Message:
        """Begin a new response, and close the one before."""
        self.close_response()
        response = Message("response", self.at, fields=fields)
        self.messages.append(response)
        self.response = response
        return response

    def current_response(self) -> Message:
        """Return the open response, or a new one."""
        return self.response or self.open_response()

    def last_response(self) -> Message | None:
        """Return the newest response, open or closed."""
        for message in reversed(self.messages):
            if message.kind == "response":
                return message
        return None

    def close_response(self, *, keep_open: bool = False) -> None:
        """Close the open response; text that is still open counts as unfinished.

        `keep_open`: its open text may still go on (merged streams do that).
        """
        if self.response is not None:
            if not self.response.closed:
                self.response.closed = True
                self.response.last_at = self.at
            self.response = None
            if not keep_open:
                self.open_text.clear()
                self.open_thinking.clear()

    def request_after(self, response: Message | None) -> Message:
        """Return the request that answers `response` (by default the newest response).

        If there is none, create it.
        """
        response = response or self.last_response()
        if response is not None and response.request is not None:
            response.request.at = max(response.request.at, self.at)
            return response.request
        request = Message("request", self.at, closed=True)
        if response is None or self.last_response() is response:
            self.messages.append(request)
        else:  # a later response exists: insert it after the one that it answers
            self.messages.insert(self.messages.index(response) + 1, request)
        if response is not None:
            response.request = request
        return request

    def add_part(self, fields: Fields, *, done: bool = True) -> Part:
        """Append a part to the open response (or a new one)."""
        response = self.response or self.open_response()
        if response.first_part_at is None:
            response.first_part_at = self.at
        part = Part(fields, done=done)
        response.parts.append(part)
        return part

    # ---- text and thinking, by the wire's id

    def text_start(self, key: str, **fields: Any) -> Part:
        """Open a text part; an open one with the same id is abandoned."""
        part = self.add_part({"part_kind": "text", "content": "", **fields}, done=False)
        self.open_text[key] = part
        return part

    def thinking_start(self, key: str, **fields: Any) -> Part:
        """Open a thinking part; an open one with the same id is abandoned."""
        part = self.add_part({"part_kind": "thinking", "content": "", **fields}, done=False)
        self.open_thinking[key] = part
        return part

    def text_end(self, key: str, **fields: Any) -> None:
        """Close a text part. Raises KeyError if it is not open."""
        part = self.open_text.pop(key)
        part.fields.update(fields)
        part.done = True

    def thinking_end(self, key: str, **fields: Any) -> None:
        """Close a thinking part. Raises KeyError if it is not open."""
        part = self.open_thinking.pop(key)
        part.fields.update(fields)
        part.done = True

    # ---- tools, by tool_call_id; a call belongs to the response in which it was opened

    def tool_start(self, call_id: str, name: str, kind: str = "tool-call", **fields: Any) -> Part:
        """Open a call whose arguments come as deltas; it counts only once `tool_call` completes it."""
        part = self.add_part(
            {"part_kind": kind, "tool_name": name, "tool_call_id": call_id, "args": None, **fields}, done=False
        )
        self.calls[call_id] = (self.current_response(), part)
        return part

    def call_in_response(self, call_id: str) -> Part | None:
        """Return the call of this id in the open response; a later response may use the id again."""
        entry = self.calls.get(call_id)
        return entry[1] if entry is not None and entry[0] is self.response else None

    def tool_call(self, call_id: str, name: str, args: Any, kind: str = "tool-call", **fields: Any) -> Part:
        """Add a call with its final arguments: complete the open one of this id in this response, or add a new one."""
        part = self.call_in_response(call_id) or self.tool_start(call_id, name, kind)
        part.fields.update({"part_kind": kind, "tool_name": name, "args": args, **fields})
        part.done = True
        early = self.orphans.pop(call_id, None)
        if early is not None:
            self.tool_return(call_id, **early)
        return part

    def tool_return(self, call_id: str, *, kind: str = "tool-return", **fields: Any) -> Part | None:
        """Add a call's result to the request after the call's response; the last of several in one step counts.

        `fields`: status, content, tool_name (by default the call's) and other fields of the wire. A result whose call
        has not come yet waits for it; then return None.
        """
        entry = self.calls.get(call_id)
        if entry is None:
            self.orphans[call_id] = {"kind": kind, **fields}
            return None
        response, call = entry
        request = self.request_after(response)
        for part in request.parts:
            if part.fields.get("tool_call_id") == call_id:
                part.fields = self._return_fields(kind, call, fields)
                return part
        part = Part(self._return_fields(kind, call, fields), done=True)
        request.parts.append(part)
        return part

    @staticmethod
    def _return_fields(kind: str, call: Part, fields: Fields) -> Fields:
        identity = {
            "part_kind": kind,
            "tool_name": call.fields["tool_name"],
            "tool_call_id": call.fields["tool_call_id"],
        }
        return identity | fields

    # ---- beside the conversation

    def system(self, event_type: str, data: Any, **fields: Any) -> Message:
        """Add a SystemMessage at this point; `meta:after_part` keeps its position among the open response's parts."""
        message = Message(
            "system", self.at, fields={"event_type": event_type, "event_data": data, **fields}, closed=True
        )
        if self.response is not None:
            message.fields["meta:after_part"] = len(self.response.parts)
        self.messages.append(message)
        return message

    def sys_event(self, event_type: str, data: Any) -> None:
        """Add a data-sys-* event: to telemetry; tokens also to the newest response."""
        self.telemetry.append((self.at, event_type, data))
        if event_type == "data-sys-usage" and isinstance(data, dict):
            self.usage(data, streamed=True)

    def usage(self, usage: Fields, response: Message | None = None, *, streamed: bool = False) -> None:
        """Set the tokens of a response (by default the newest); a second report of a response replaces the first.

        `streamed`: it came as a data-sys-usage event, so telemetry has it already.
        """
        response = response or self.last_response()
        if response is not None:
            response.fields["usage"] = usage
            if streamed:
                response.usage_streamed = True

    def beside(
        self, purpose: str, usage: Fields | None = None, *, model: str | None = None, provider: str | None = None
    ) -> Message:
        """Add a response beside the answer: a call whose tokens were spent, but whose output is no part of the turn."""
        fields = present({"usage": usage, PURPOSE: purpose, "model_name": model, "provider_name": provider})
        message = Message("response", self.at, fields=fields, closed=True)
        self.asides.append(message)
        return message

    def bill(self, purpose: str, fields: Fields) -> None:
        """Add what a response with these fields is known to have used beside the answer; it is no part of the turn."""
        if any(tokens.counts(fields.get("usage")).values()):
            self.beside(purpose, fields["usage"], model=fields.get("model_name"), provider=fields.get("provider_name"))

    def user_turn(
        self, parts: list[Fields], *, at: int | None = None, client_metadata: Fields | None = None, **fields: Any
    ) -> None:
        """Add the user's submission that started this run; `at` in epoch ms, by default the run's start."""
        turn: Fields = {"turn_type": "user", "at": at, "parts": parts, **fields}
        if client_metadata:
            turn["client_metadata"] = client_metadata
        self.user_turns.append(turn)

    def end_turn(self, end: str, at: int | None = None) -> None:
        """End this turn; later events of the run belong to its next turn. `end` as in `finish`.

        `at` (epoch ms) is the turn's last moment; by default the newest event's.
        """
        if end == "complete":
            self.close_response()
        before = self.agent_turns[-1].last_at if self.agent_turns else 0
        first_at = max(before, self.first_at)  # rule 4: turns don't overlap
        self.agent_turns.append(
            Turn(
                end=end,
                messages=self.messages,
                asides=self.asides,
                notes=self.notes,
                turn_fields=self.turn_fields,
                total_usage=self.total_usage,
                error_text=self.error_text,
                first_at=first_at,
                last_at=max(first_at, self.last_at if at is None else at),
                returns_by_call=self.returns_by_call,
            )
        )
        self.messages, self.asides, self.notes, self.turn_fields = [], [], {}, {}
        self.calls, self.orphans = {}, {}
        self.response, self.total_usage, self.error_text = None, None, None
        self.open_text, self.open_thinking = {}, {}
        self.first_at = self.at
