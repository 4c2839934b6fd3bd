"""The state of an AG-UI stream's handlers: the flat list of messages that AG-UI's client keeps.

Messages have ids, several may be open at once, and their order is that of their first events. Events that are not
messages (state, activities, custom events) are entries of their own between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import identifier, identifier_of_base64, note_under, object_in
from pipeline.turns.media_kinds import BY_MEDIA, DOCUMENT, url_kind
from pipeline.turns.text import join
from topics.json_text import Fields, object_of

META: Final = "meta:ag_ui"  # of parts, prompts and turns: the wire's fields beyond ThreadProtocol, by its names

CAMEL: Final = (
    *("messageId", "toolCallId", "toolCallName", "parentMessageId", "subagentRunId", "threadId", "runId"),
    *("parentRunId", "entityId", "encryptedValue", "toolCalls"),
)
SNAKE: Final = {name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name) for name in CAMEL}
KNOWN: Final = frozenset(
    {*SNAKE, *SNAKE.values(), "rawEvent", "raw_event"}
    | {"type", "timestamp", "role", "name", "delta", "content", "error", "result", "usage", "outcome", "input"}
)
BUILTIN: Final = "pyd_ai_builtin"  # `pyd_ai_builtin|PROVIDER|ID`: how Pydantic AI marks calls that the provider ran
MEDIA: Final = {**BY_MEDIA, "document": DOCUMENT}
FAILED: Final = frozenset({"retried", "failed", "denied", "interrupted"})


@dataclass(slots=True, eq=False)
class Item:
    """A message of the flat list, or (`event`) an event between messages. Times in epoch ms.

    `texts`: of an assistant, a user or a thought; `calls`: of an assistant. `attrs`: the message's other fields by the
    wire's names: a result's toolCallId, content and error, encryptedValue, name.
    """

    role: str
    id: str
    at: int
    last_at: int
    texts: list[Part] = field(default_factory=list)
    calls: list[Part] = field(default_factory=list)
    attrs: Fields = field(default_factory=dict)
    usage: Fields | None = None
    ended: str | None = None  # TanStack's finishReason of the call that it ends
    event: Message | None = None
    given: bool = False  # it came with the request

    def says(self) -> str:
        """Return the whole text so far."""
        return "".join(str(part.fields["content"]) + join(part.chunks) for part in self.texts)


@dataclass(slots=True, eq=False)
class Stream:
    """One run so far, or one sub-agent's part of it.

    `known`: ids of messages that are older than the run. `calls`: the newest call of each id, and its message.
    """

    name: str = ""  # of the sub-agent's run; empty for the run itself
    known: set[str] = field(default_factory=set)
    items: list[Item] = field(default_factory=list)
    calls: dict[str, tuple[Item, Part]] = field(default_factory=dict)
    earlier: dict[str, str] = field(default_factory=dict)  # names of the tools that earlier runs called, by call id
    asked: bool = False  # the request was read, or RUN_STARTED repeated it
    over: bool = False  # its terminal event came
    chunked: str | None = None  # the part that the next chunk without an id extends, by its key in `Builder.open_text`
    thoughts: int = 0  # thoughts without an id (0.x)
    rewritten: bool = False  # a program wrote the history anew, with a summary of what it left out
    steps: dict[str, str] = field(default_factory=dict)  # the thoughts of steps, by whose names TanStack seals them
    subagents: dict[str, Stream] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """Return the name of an open part in the builder."""
        return f"{self.name}/{name}" if self.name else name

    def find(self, role: str, message_id: str) -> Item | None:
        """Return a message by its role and id: a thought and the answer after it may share one."""
        return next((item for item in reversed(self.items) if item.id == message_id and item.role == role), None)

    def message(self, role: str, message_id: str, at: int) -> Item:
        """Return the message with this id, or a new one at the end."""
        known = self.find(role, message_id)
        if known is None:
            known = Item(role, message_id, at, at)
            self.items.append(known)
        return known

    def newest(self) -> Item | None:
        """Return the newest message of the assistant, or thought."""
        return next((item for item in reversed(self.items) if item.role in ("assistant", "reasoning")), None)

    def answered(self, call_id: str) -> bool:
        """Return True if a call has its result."""
        return any(item.role == "tool" and item.attrs.get("toolCallId") == call_id for item in self.items)

    def answer(self, item: Item) -> None:
        """Insert a result after the message with its call, and after results that are already there.

        Some servers give each call a message of its own: those that were whole before the first result are an answer.
        """
        call = self.calls.get(item.attrs["toolCallId"])
        at = self.items.index(call[0]) + 1 if call is not None and call[0] in self.items else len(self.items)
        for number in range(at, len(self.items)):
            other = self.items[number]
            if other.role not in ("assistant", "reasoning", "event"):
                break
            if other.calls and all(part.done for part in other.calls):
                at = number + 1
        while at < len(self.items) and self.items[at].role in ("tool", "event"):
            at += 1
        self.items.insert(at, item)

    def beside(self, builder: Builder, event_type: str, data: Any) -> Item:
        """Append an event that is not a message."""
        message = Message("system", builder.at, fields={"event_type": event_type, "event_data": data}, closed=True)
        item = Item("event", "", builder.at, builder.at, event=message)
        self.items.append(item)
        return item


def stream_of(builder: Builder, event: Fields) -> Stream:
    """Return the list that an event belongs to: the run's, or that of the sub-agent that it names."""
    stream: Stream = builder.scratch["stream"]
    name = get(event, "subagentRunId")
    return stream if not isinstance(name, str) else stream.subagents.setdefault(name, Stream(name))


def get(event: Fields, name: str) -> Any:
    """Return a field by its name, or in snake_case, as Python servers write it; None if it is absent or null."""
    value = event.get(name)
    return event.get(SNAKE.get(name, name)) if value is None else value


def tanstack(event: Fields) -> Fields:
    """Return the fields that TanStack AI adds to an event; {} for an event of another server."""
    return object_of(object_of(event.get("metadata")).get("tanstack"))


def unknown_fields(event: Fields) -> Fields | None:
    """Return the unknown fields of an event; None where there are none."""
    return {key: value for key, value in event.items() if key not in KNOWN and value is not None} or None


def text_of(event: Fields, name: str) -> str:
    """Return a field that must be text. Raises KeyError if it is missing, Violation if it is not a text."""
    value = get(event, name)
    if value is None:
        raise KeyError(name)
    if not isinstance(value, str):
        raise Violation(f"{event.get('type')}: {name!r} must be a string, got {value!r:.80}")
    return value


note: Final = partial(note_under, META)


def seal_call(part: Part, value: Any) -> None:
    """Keep the encrypted value of a call: the signature of Gemini's thought, or JSON of Pydantic AI."""
    note(part.fields, {"encryptedValue": value})
    if isinstance(value, str) and not value.startswith("{"):
        part.fields[SIGNATURE] = value


def prompt(content: Any) -> str | list[Any]:
    """Return a user message's content as that of a user-prompt: a single text stays a text, all else is a list."""
    if isinstance(content, str) or not isinstance(content, list):
        return content if isinstance(content, str) else ""
    pieces = [_content_item(part) for part in content]
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces


def _content_item(part: Any) -> Any:
    if not isinstance(part, dict):
        return {"kind": "custom:ag-ui", "part": part}
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    kind, source = part.get("type"), part.get("source")
    if kind == "binary":  # 0.x
        held = {"data": part.get("data"), "url": part.get("url"), "mimeType": get(part, "mimeType")}
        kind = str(held["mimeType"]).partition("/")[0]
    elif isinstance(source, dict) and source.get("type") in ("data", "url"):
        held = {source["type"]: source.get("value"), "mimeType": get(source, "mimeType")}
    else:
        return {"kind": "custom:ag-ui", "part": part}
    media_type = held["mimeType"]
    if isinstance(held.get("data"), str):
        media_type = media_type if isinstance(media_type, str) else "application/octet-stream"
        return {
            "kind": "binary",
            "data": held["data"],
            "media_type": media_type,
            "identifier": identifier_of_base64(held["data"]),
        }
    if isinstance(held.get("url"), str):
        by_address = {"url": held["url"], "identifier": identifier(held["url"])}
        if isinstance(media_type, str):
            return {"kind": url_kind(media_type), **by_address, "media_type": media_type}
        return {"kind": MEDIA.get(str(kind), DOCUMENT), **by_address}
    return {"kind": "custom:ag-ui", "part": part}


def verdict(attrs: Fields) -> Fields:
    """Return status and outcome of a tool message, from the wire's `error` or Pydantic AI's `outcome`."""
    outcome = object_of(object_in(attrs.get("encryptedValue")).get("pydantic_ai")).get("outcome")
    failed = attrs.get("error") is not None or outcome in FAILED
    fields: Fields = {"status": "error" if failed else "success"}
    return {**fields, "outcome": "denied"} if outcome == "denied" else fields
