"""The state of a run: its threads of messages, their common state, and their tokens.

The main conversation and each sub-agent are a thread of messages. A sub-agent's thread has its own builder, whose turns
form a thread of their own: it is `spawned_from` the thread with the call that started it.

Anthropic's `input_tokens` exclude those of caches; here they include cache reads and writes.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context, Message, Part
from pipeline.dialects.anthropic.message import with_written
from pipeline.turns import tokens
from topics import json_text
from topics.json_text import Fields, filled, object_of
from turnmill.identity import thread_uuid

META: Final = "meta:claude-code"
PREFIX: Final = "custom:claude-code."
AGENT: Final = "agent"  # of a sub-agent whose type is on no line
CACHE_READ: Final = "cache_read_input_tokens"
WRITTEN: Final = "cache_creation_input_tokens"
INPUT: Final = ("input_tokens", CACHE_READ, WRITTEN)
READ: Final = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens")
DETAILS: Final = (  # counts inside objects
    ("thinking_tokens", "output_tokens_details", "thinking_tokens"),
    ("cache_write_1h_tokens", "cache_creation", "ephemeral_1h_input_tokens"),
    ("web_searches", "server_tool_use", "web_search_requests"),
)


@dataclass(slots=True, eq=False)
class Thread:
    """One thread of messages; `name` is the id of the call that started it, empty for the main conversation.

    `message_id`, `request_id`: of the current API message. `streamed`: its blocks that began, by index. `awaited`:
    those of them whose line has not come. `answered`: a result came after its newest line. `torn`: responses that were
    stopped. `errors`: messages in place of responses.
    """

    name: str
    builder: Builder
    message_id: str | None = None
    request_id: Any = None
    sent: Fields | None = None
    streamed: dict[Any, Part] = field(default_factory=dict)
    awaited: list[Part] = field(default_factory=list)
    answered: bool = False
    streams: bool = False
    asides: list[Message] = field(default_factory=list)  # responses beside the current message
    torn: list[Message] = field(default_factory=list)
    errors: list[Message] = field(default_factory=list)
    exact: list[Message] = field(default_factory=list)  # responses whose own tokens are final

    def shut(self) -> None:
        """Close the current API message: no more of its lines come."""
        self.builder.close_response(keep_open=True)
        self.message_id, self.request_id, self.sent = None, None, None
        self.streamed, self.awaited, self.asides = {}, [], []
        self.answered = self.streams = False


@dataclass(slots=True, eq=False)
class Session:
    """A run of Claude Code. `tasks`: how sub-agents ended, and `agents`: their types, by the call's id.

    `init`: the newest such line. `ended`: the newest `result`, until the conversation continues. `asked`: ids of
    control requests whose responses are kept. `said`: the parts that a line has added, by its uuid.
    """

    threads: dict[str, Thread]
    seen: dict[str, str] = field(default_factory=dict)
    results: list[Fields | None] = field(default_factory=list)  # None: their sums begin anew
    before: Fields | None = None  # what the process had spent before the run, from `turnmill.sums`
    compacted: bool = False
    init: Fields | None = None
    ended: Fields | None = None
    agents: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    said: dict[str, list[Part]] = field(default_factory=dict)

    @property
    def hidden(self) -> bool:
        """Return True if the run had calls whose tokens no line tells: of sub-agents, and of a compaction."""
        return self.compacted or len(self.threads) > 1 or bool(self.agents)

    @property
    def main(self) -> Thread:
        """The main conversation."""
        return self.threads[""]

    def is_new(self, event: Fields) -> bool:
        """Return True if this line was not read before: a line has a uuid, but some writers use one for many lines."""
        name = event.get("uuid")
        if not isinstance(name, str):
            return True
        digest = hashlib.sha256(json_text.dumps(event).encode("utf-8", "surrogatepass")).hexdigest()
        if self.seen.get(name) == digest:
            return False
        self.seen[name] = digest
        return True

    def note(self, event: Fields, parts: list[Part]) -> None:
        """Note which parts a line has added."""
        if isinstance(event.get("uuid"), str):
            self.said.setdefault(event["uuid"], []).extend(parts)


def begin(builder: Builder) -> Session:
    """Return the session of a run that begins."""
    session = Session({"": Thread("", builder)})
    builder.returns_by_call = True
    builder.scratch = session
    return session


def name_of(event: Fields) -> str:
    """Return the name of the thread that a line belongs to. Raises TypeError if it is not a text."""
    parent = event.get("parent_tool_use_id")
    return "" if parent is None else parent + ""


def thread_of(builder: Builder, event: Fields) -> Thread:
    """Return the thread that a line belongs to; a sub-agent's thread begins with its first line."""
    session: Session = builder.scratch
    session.ended = None
    name = name_of(event)
    thread = session.threads.get(name)
    if thread is None:
        thread = session.threads[name] = _child(builder, session, name, event)
    thread.builder.at = builder.at
    thread.builder.last_at = max(thread.builder.last_at, builder.at)
    return thread


def _child(builder: Builder, session: Session, name: str, event: Fields) -> Thread:
    """Return a sub-agent's thread. Its parent is the thread with the call, or else the main conversation."""
    holder = next((thread for thread in session.threads.values() if name in thread.builder.calls), session.main)
    of_line = event.get("subagent_type")
    call = holder.builder.calls[name][1].fields.get("args") if name in holder.builder.calls else None
    asked = object_of(call).get("subagent_type")
    kind = next((kind for kind in (session.agents.get(name), of_line, asked) if isinstance(kind, str) and kind), AGENT)
    context, parent_id = builder.context, holder.builder.context.thread_id
    thread_id, _ = thread_uuid(f"{context.thread_id}/{context.run_id}/{name}")
    names = Context(
        thread_id=thread_id,
        run_id=context.run_id,
        agent_id=kind,
        dialect=context.dialect,
        tenant=context.tenant,
        agent_name=kind,
        provider_name=context.provider_name,
        parent_thread_id=parent_id,
        traceparent=context.traceparent,
        imported=context.imported,
    )
    child = Builder(names, builder.at)
    child.started = True
    child.links.append({"thread_id": parent_id, "relation": "spawned_from", "metadata": {"tool_call_id": name}})
    builder.children.append(child)
    holder.builder.at = builder.at
    holder.builder.system(f"{PREFIX}subagent", {"tool_call_id": name, "thread_id": thread_id, "agent": kind})
    return Thread(name, child)


def normal(usage: Any) -> Fields:
    """Return ThreadProtocol's counts of a usage object of the API; {} if it has none."""
    if not isinstance(usage, dict):
        return {}
    usage = with_written(usage)
    known = {key: usage[key] for key in INPUT if _is_count(usage.get(key))}
    counts: Fields = {"input_tokens": sum(known.values())} if known else {}
    if _is_count(usage.get("output_tokens")):
        counts["output_tokens"] = usage["output_tokens"]
    counts |= filled({"cache_read_tokens": known.get(CACHE_READ), "cache_write_tokens": known.get(WRITTEN)})
    for name, key, inner in DETAILS:
        count = object_of(usage.get(key)).get(inner)
        if _is_count(count) and count:
            counts[name] = count
    if not any(counts.values()):
        return {}
    return counts | {
        key: tier for key in tokens.TIERS if isinstance(tier := usage.get(key), str) and tier not in tokens.STANDARD
    }


def settle(builder: Builder, thread: Thread, usages: list[Any]) -> None:
    """Set the tokens of the run's responses by the sums in its `result` lines, `usages`.

    If responses have complete counts of their own, from partial messages, and these add up to the sum, they stay.
    If only their input does, the last response gets the rest of the output. Otherwise it gets the sum.
    """
    counted = [counts for usage in usages if (counts := normal(usage))]
    sums = tokens.total(counted)
    if not sums:
        return
    served: Fields = {key: counts[key] for counts in counted for key in tokens.TIERS if key in counts}
    responses = [message for message in builder.messages if message.kind == "response" and "usage" in message.fields]
    exact = all(any(message is other for other in thread.exact) for message in responses)
    said = [m for m in builder.messages if m.kind == "response" and all(m is not e for e in thread.errors)]
    last = said[-1] if said else None
    total = tokens.total([message.fields["usage"] for message in responses])
    if exact and total and all(total.get(key) == sums.get(key) for key in ("input_tokens", "output_tokens")):
        return
    if total and last in responses and all(total.get(key, 0) == sums.get(key, 0) for key in READ):
        rest = {name: max(sums[name] - total.get(name, 0), 0) for name in sums if name not in READ}
        last.fields["usage"] |= {name: last.fields["usage"].get(name, 0) + count for name, count in rest.items()}
        return
    for message in responses:
        del message.fields["usage"]
    if last is not None:
        last.fields["usage"] = {**sums, **served} | ({tokens.SUMMED_CALLS: True} if len(said) > 1 else {})
    else:
        builder.total_usage = sums
        builder.telemetry.append((builder.at, "data-sys-usage", sums))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= tokens.MAX_COUNT
