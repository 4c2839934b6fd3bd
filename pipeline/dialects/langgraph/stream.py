"""The state of a LangGraph stream's handlers: the state of the root graph, and messages streamed meanwhile.

Whole messages of updates and states are authoritative; chunks and snapshots come before them. Some never become part of
the state: a router's thoughts, a failed attempt, an agent inside a tool.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message
from pipeline.dialects.langgraph.merge import added, is_run_id
from pipeline.dialects.langgraph.shapes import message_of
from topics.json_text import Fields

JOIN_AFTER: Final = 256  # texts from which on they are joined
REPEATED_KEYS: Final = {"model_provider"}  # what every chunk repeats of the metadata
READ_KEYS: Final = ("tool_call_chunks", "usage_metadata", "additional_kwargs", "chunk_position")
CALLS: Final = ("tool_calls", "invalid_tool_calls")
CONTENT: Final = ("type", "content", "tool_call_id", "tool_calls")
NOT_ADDED: Final = (*CALLS, "chunk")  # fields of a first chunk that are no part of the message
ALL: Final = "__remove_all__"
TASK: Final = "langgraph_checkpoint_ns"  # in the metadata: the task of a message
OF_TOOLS: Final = "tools:"


@dataclass(slots=True, eq=False)
class Entry:
    """A message: whole, or the sum of its chunks so far. Times in epoch ms.

    `rank`: step and index of the task that wrote it, if several ran at once. `old`: of an earlier run. `confirmed`: it
    is in the state. `streamed`: it was streamed before it was written. `broken`: its task began another message before
    this one ended. `repeated`: an answer of an earlier run, in a history that was written anew. `made`: a program wrote
    it in the user's name.
    """

    message: Fields
    at: int
    last_at: int
    namespace: tuple[str, ...] = ()
    ids: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    whole: bool = False
    first_at: int | None = None
    rank: tuple[int, int] | None = None
    old: bool = False
    confirmed: bool = False
    streamed: bool = True
    broken: bool = False
    repeated: bool = False
    made: bool = False
    usage: Fields | None = None

    def add(self, chunk: Fields) -> None:
        """Add a chunk; most contain only text."""
        if isinstance(self.message.get("content"), str) and is_text(chunk):
            self.append(chunk["content"])
            return
        self.settle()
        self.message = added(self.message, chunk)

    def append(self, text: str) -> None:
        """Append to a message that consists of one text so far."""
        self.texts.append(text)
        if len(self.texts) >= JOIN_AFTER:
            self.texts[:] = ["".join(self.texts)]

    def settle(self) -> Fields:
        """Return the message with all its chunks."""
        if self.texts:
            self.message = added(self.message, {"content": "".join(self.texts)})
            self.texts.clear()
        return self.message

    def is_other(self, message_id: Any) -> bool:
        """Return True if a chunk with this id is the next message's: one may have its provider's id and LangChain's."""
        if not isinstance(message_id, str) or message_id in self.ids:
            return False
        return self.is_over() or any(is_run_id(known) == is_run_id(message_id) for known in self.ids)

    def is_over(self) -> bool:
        """Return True if its last chunk came."""
        metadata = self.message.get("response_metadata")
        reasons = ("finish_reason", "stop_reason", "status")
        ended = isinstance(metadata, dict) and any(metadata.get(reason) for reason in reasons)
        return self.whole or ended or self.message.get("chunk_position") == "last"


@dataclass(slots=True, eq=False)
class Stream:
    """One run so far.

    `updated`: updates or states came. `valued`: the newest of these was a whole state. `rewritten`: a node wrote the
    history anew, so that states lack what was said. `begun`: the root's start came,
    in a form that also has its end; `root`: its run id, if it has one. `base`: the messages of the state before the
    run. `checkpoint`: the one at which the run began; `checkpoints`: those it wrote.
    """

    state: list[Entry] = field(default_factory=list)
    updated: bool = False
    based: bool = False
    valued: bool = False
    rewritten: bool = False
    begun: bool = False
    root: str | None = None
    over: bool = False
    heard: list[Entry] = field(default_factory=list)
    open: dict[str, Entry] = field(default_factory=dict)  # by task, and by id
    known: dict[str, Fields] = field(default_factory=dict)  # metadata by message id (messages/metadata)
    replays: set[Any] = field(default_factory=set)  # tokens of events that have one (`StreamEvent.token`)
    beside: list[Message] = field(default_factory=list)
    rest: Fields = field(default_factory=dict)  # other keys of the state
    base: list[Fields] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)  # contents of the user's messages that began it
    earlier: set[str] = field(default_factory=set)  # the ids of its messages, and of those that the request repeats
    hidden: dict[str, str] = field(default_factory=dict)  # the purposes of calls that are not shown, by message id
    checkpoint: str | None = None
    checkpoints: dict[str, None] = field(default_factory=dict)

    def chunk(self, chunk: Fields, namespace: tuple[str, ...], metadata: Fields, at: int) -> None:
        """Add a chunk of a message. Tasks run side by side, and one message may change its id."""
        message_id, task = chunk.get("id"), metadata.get(TASK)
        entry = self.open.get(message_id) if isinstance(message_id, str) else None
        entry = entry or (self.open.get(task) if isinstance(task, str) else None)
        if entry is None or entry.whole or entry.is_other(message_id):
            if entry is not None and not entry.is_over():
                entry.broken = True
            fields = {key: value for key, value in chunk.items() if key not in NOT_ADDED}
            entry = Entry(fields, at, at, namespace, rank=_rank(metadata))
            self.heard.append(entry)
        else:
            entry.add({key: value for key, value in chunk.items() if key not in CALLS})
        entry.last_at = at
        entry.first_at = at if entry.first_at is None else entry.first_at
        for name in (message_id, task):
            if isinstance(name, str):
                self.open[name] = entry
        if isinstance(message_id, str):
            entry.ids.add(message_id)

    def snapshot(self, message: Fields, namespace: tuple[str, ...], metadata: Fields, at: int, *, whole: bool) -> None:
        """Set a message to its content so far, or to the whole."""
        message_id = message.get("id")
        entry = self.open.get(message_id) if isinstance(message_id, str) else None
        fields = {key: value for key, value in message.items() if key != "tool_call_chunks"}
        if entry is not None and entry.whole and entry.message == fields:
            return
        if entry is None or entry.whole:
            entry = Entry(fields, at, at, namespace, rank=_rank(metadata), first_at=at)
            entry.repeated = message_id in self.earlier
            self.heard.append(entry)
        entry.texts.clear()
        entry.message, entry.last_at, entry.whole = _keeping_usage(fields, entry.message), at, whole
        if isinstance(message_id, str):
            self.open[message_id] = entry
            entry.ids.add(message_id)

    def write(self, raws: Iterable[Any], at: int) -> None:
        """Write a node's output as LangGraph's add_messages does: the same id replaces, a RemoveMessage removes.

        Some nodes write the whole conversation: a message before a known one is older than that one, and one before
        the user's words that began the run is an earlier run's.
        """
        messages = [message for message in map(message_of, raws) if message is not None]
        anew = [n for n, message in enumerate(messages) if message["type"] == "remove" and message.get("id") == ALL]
        if anew:
            self._rewrite(messages[anew[-1] + 1 :], at, copied=True)
            self.updated, self.valued = True, False
            return
        humans = [number for number, message in enumerate(messages) if message["type"] == "human"]
        began = max((number for number in humans if messages[number].get("content") in self.asked), default=0)
        for number, message in enumerate(messages):
            known = self._find(message)
            if message["type"] == "remove":
                self.state = [entry for entry in self.state if entry is not known]
            elif known is not None:
                known.message, known.last_at = _keeping_usage(message, known.message), at
            else:
                later = (self._find(other) for other in messages[number + 1 :])
                behind = next((entry for entry in later if entry is not None), None)
                index = self.state.index(behind) if behind is not None else len(self.state)
                self.state.insert(index, self._confirmed(message, at, before=number < began))
        self.updated, self.valued = True, False

    def set(self, raws: Iterable[Any], at: int) -> None:
        """Set the whole state. The first is from before the run: only the user's last messages in it are new."""
        messages = [message for message in map(message_of, raws) if message is not None]
        first = not self.based and not self.updated and not any(entry.namespace == () for entry in self.heard)
        if first:
            self.base = [message for message in messages if not made_by_program(message)]
            self.earlier |= ids_of(messages)
        before = list(self.state)
        if not first and self._is_anew(messages):
            self._rewrite(messages, at)
            before, messages = [], []
        else:
            self.state = []
        for message in messages:
            known = next((entry for entry in before if _same(entry.message, message)), None)
            if known is None:
                known = self._confirmed(message, at)
                known.old, known.repeated = first, known.repeated and not first
            else:
                before.remove(known)
                known.message = _keeping_usage(message, known.message)
            self.state.append(known)
        self.based = True
        self.updated = self.updated or not first
        self.valued = not first

    def _is_anew(self, messages: list[Fields]) -> bool:
        """Return True for a history that was written anew: with a new summary, or without its first messages."""
        if self.rewritten or any(made_by_program(message) and self._find(message) is None for message in messages):
            return True
        kept = [any(_same(entry.message, message) for message in messages) for entry in self.state]
        return True in kept and not kept[0] and all(kept[kept.index(True) :])

    def _rewrite(self, messages: list[Fields], at: int, *, copied: bool = False) -> None:
        """Take over a history that was written anew: what was said before stays, in its order.

        Unknown messages before the last known one, or before the user's words, are of earlier runs. A new one in the
        user's name is a program's: users write none while a graph runs. `copied`: what comes again may have other ids.
        """
        self.rewritten = True
        heard = {name for entry in self.heard for name in entry.ids}
        known = [self._find(message) for message in messages]
        for number, message in enumerate(messages):
            if copied and known[number] is None and message.get("id") not in heard:
                known[number] = self._said(message, known)
        made = [entry is None and self._is_made(message) for entry, message in zip(known, messages, strict=True)]
        humans = [n for n, message in enumerate(messages) if message["type"] == "human" and not made[n]]
        begun = max([*humans, *(n for n, entry in enumerate(known) if entry is not None)], default=-1)
        for number, (message, entry) in enumerate(zip(messages, known, strict=True)):
            if entry is not None:
                entry.message = _keeping_usage(message, entry.message)
                continue
            new = self._confirmed(message, at)
            new.made = made[number]
            new.old = number <= begun and not new.made and message.get("id") not in heard
            ahead = (n for n, other in enumerate(self.state) if not other.old)
            self.state.insert(next(ahead, len(self.state)) if new.old else len(self.state), new)

    def _is_made(self, message: Fields) -> bool:
        told = self.based or bool(self.asked)  # what the user has said is known
        foreign = told and message.get("content") not in self.asked
        return made_by_program(message) or (message["type"] == "human" and foreign)

    def _said(self, message: Fields, taken: list[Entry | None]) -> Entry | None:
        """Return the newest entry of this content that is not taken; a program's words only if they get an id now."""
        for entry in reversed(self.state):
            same = all(entry.message.get(key) == message.get(key) for key in CONTENT)
            ids = (entry.message.get("id"), message.get("id"))
            another = made_by_program(message) and (entry.old or None not in ids)
            if same and not another and not any(other is entry for other in taken):
                return entry
        return None

    def _find(self, message: Fields) -> Entry | None:
        return next((entry for entry in self.state if _same(entry.message, message)), None)

    def _confirmed(self, message: Fields, at: int, *, before: bool = False) -> Entry:
        """Return a new message of the state, with the times of its chunks; `before`: it stands before the run."""
        message_id = message.get("id")
        heard = next((entry for entry in self.heard if message_id in entry.ids and not entry.confirmed), None)
        entry = Entry(message, at, at, whole=True, confirmed=True, repeated=message_id in self.earlier)
        if heard is None:
            entry.repeated = entry.repeated or before
            spoken = any(other.message.get("type") == "ai" for other in self.heard)
            entry.streamed = not isinstance(message_id, str) or spoken
            return entry
        heard.confirmed = heard.whole = True
        entry.at, entry.last_at, entry.first_at, entry.rank = heard.at, heard.last_at, heard.first_at, heard.rank
        entry.message = _keeping_usage(message, heard.settle())
        entry.usage = heard.usage
        return entry


def ids_of(messages: Iterable[Fields]) -> set[str]:
    """Return the ids of messages, as far as they have some."""
    return {message["id"] for message in messages if isinstance(message.get("id"), str)}


def made_by_program(message: Fields) -> bool:
    """Return True if a program wrote a message in the user's name (`add_notification_metadata` of langchain-core)."""
    extra = message.get("additional_kwargs")
    return isinstance(extra, dict) and isinstance(extra.get("lc_source"), str)


def is_text(chunk: Fields) -> bool:
    """Return True if a chunk contains only text."""
    if chunk.get("content").__class__ is not str:
        return False
    for key in READ_KEYS:
        if chunk.get(key):
            return False
    return not set(chunk.get("response_metadata") or ()) - REPEATED_KEYS


def _same(left: Fields, other: Fields) -> bool:
    """Return True for the same message: by id, or, if both lack one, by content."""
    if left.get("id") is not None or other.get("id") is not None:
        return left.get("id") == other.get("id")
    return all(left.get(key) == other.get(key) for key in ("type", "content", "tool_call_id"))


def _keeping_usage(message: Fields, before: Fields) -> Fields:
    """Return the message; if its serialisation lacks tokens, with the previous ones."""
    if message.get("usage_metadata") or not before.get("usage_metadata"):
        return message
    return {**message, "usage_metadata": before["usage_metadata"]}


def _rank(metadata: Fields) -> tuple[int, int] | None:
    path, step = metadata.get("langgraph_path"), metadata.get("langgraph_step")
    if isinstance(path, list) and len(path) > 1 and path[0] == "__pregel_push":
        return (step, path[1]) if isinstance(step, int) and isinstance(path[1], int) else None
    return None
