"""Check a thread document: the schema, the specification's rules 1 to 8, and its invariants.

`check` takes any JSON value. Each check below is a function of the document; it ignores values of a wrong shape, which
the schema reports. Errors break the specification; warnings are allowed by it but may surprise a reader: turns of
different agents that run side by side, an own URI scheme.
The rules come first; then the invariants of turns that 0.0.4 adds: their ends and their content.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from topics.findings import Finding, Severity, joined, objects, shown, texts
from topics.json_text import Fields, object_of
from topics.part_kinds import ANSWERS
from topics.thread import schema_findings
from turnmill.identity import is_uuid

TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
NAMESPACED: Final = re.compile(r"[:./_-]")
URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):([A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+)")
SCHEMES: Final = frozenset({"https", "s3", "gs", "azure"})


def check(document: Any) -> list[Finding]:
    """Return the faults of a thread document of 0.0.4 or 0.0.3; empty where it is valid."""
    findings = schema_findings(document)
    if isinstance(document, dict):
        for find in RULES + INVARIANTS:
            findings.extend(find(document))
    return findings


def moment(value: object) -> datetime | None:
    """Return an ISO 8601 date and time as an aware datetime, in UTC if it has no offset; None for any other value."""
    if not isinstance(value, str) or not TIME.fullmatch(value):
        return None
    try:
        stamp = datetime.fromisoformat(value.upper())
        return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def times(document: Fields) -> Iterator[Finding]:
    """Rule 1: all timestamps are ISO 8601."""
    for path, value in _timestamps(document):
        if moment(value) is None:
            message = f"{shown(value)} is no ISO 8601 time: write it like 2026-01-20T16:59:02.002Z"
            yield Finding(1, "error", path, message)
        elif datetime.fromisoformat(value.upper()).tzinfo is None:
            yield Finding(1, "warning", path, f"{shown(value)} has no offset and is read as UTC: end it with Z")


def _timestamps(document: Fields) -> Iterator[tuple[str, str]]:
    yield from texts("created_at", "updated_at", of=document, path="")
    for key, config in _registry(document).items():
        if isinstance(config, dict):
            yield from texts("created_at", of=config, path=joined("agents", key))
    for path, turn in objects(document, "turns"):
        yield from texts("submitted_at", "started_at", "completed_at", of=turn, path=path)
        if isinstance(turn.get("interruption"), dict):
            yield from texts("interrupted_at", of=turn["interruption"], path=joined(path, "interruption"))
        for at, message in objects(turn, "messages", path):
            yield from texts("timestamp", of=message, path=at)


def tool_call_ids(document: Fields) -> Iterator[Finding]:
    """Rule 2: a tool return has the id of a call before it, in its turn or (client-side tools) an earlier one."""
    calls: dict[str, Any] = {}
    answered: set[str] = set()
    for path, part in _parts(document):
        kind, call_id = part.get("part_kind"), part.get("tool_call_id")
        if not isinstance(call_id, str) or not isinstance(kind, str):
            continue
        where = joined(path, "tool_call_id")
        if kind.endswith("tool-call"):
            calls[call_id] = part.get("tool_name")
            answered.discard(call_id)
        elif kind in ANSWERS and call_id not in calls:
            severity: Severity = "error" if kind == "tool-return" else "warning"
            message = f"No tool-call before this {kind} has the id {shown(call_id)}: keep the call, or drop this part"
            yield Finding(2, severity, where, message)
        elif kind == "tool-return":
            if call_id in answered:
                yield Finding(2, "warning", where, f"The call {shown(call_id)} has a return already: keep the last one")
            if calls[call_id] != part.get("tool_name"):
                message = f"The call {shown(call_id)} was of the tool {shown(calls[call_id])}: give the return its name"
                yield Finding(2, "warning", joined(path, "tool_name"), message)
            answered.add(call_id)


def agent_ids(document: Fields) -> Iterator[Finding]:
    """Rule 3: each agent_id is a key of the registry."""
    registry = _registry(document)
    for key, config in registry.items():
        if isinstance(config, dict) and isinstance(config.get("agent_id"), str) and config["agent_id"] != key:
            message = f"The agent under the key {shown(key)} calls itself {shown(config['agent_id'])}: make them alike"
            yield Finding(3, "warning", joined("agents", key, "agent_id"), message)
    for path, turn in objects(document, "turns"):
        for where, owner in ((path, turn), *objects(turn, "messages", path)):
            for at, name in texts("agent_id", of=owner, path=where):
                if name not in registry:
                    message = f"The agent {shown(name)} is not in the registry: add it to 'agents'"
                    yield Finding(3, "error", at, message)


def overlaps(document: Fields) -> Iterator[Finding]:
    """Rule 4: turns don't overlap. An error within one agent; sub-agents side by side, or a cut-off turn, a warning."""
    ends: dict[str, tuple[datetime, str]] = {}  # agent -> end and path of its complete turn that ended last
    latest: tuple[datetime, str] | None = None
    for path, turn in objects(document, "turns"):
        agent = turn.get("agent_id")
        is_user = turn.get("turn_type") == "user"
        name = "submitted_at" if is_user else "started_at"
        interruption = turn.get("interruption")
        start, completed = moment(turn.get(name)), moment(turn.get("completed_at"))
        cut_off = moment(interruption.get("interrupted_at")) if isinstance(interruption, dict) else None
        end = start if is_user else completed or cut_off
        if start is not None:
            if end is not None and end < start:
                yield Finding(4, "error", joined(path, name), "The turn ends before it starts: correct its times")
            before = ends.get(agent) if isinstance(agent, str) else None
            if before is not None and start < before[0]:
                message = f"The turn starts before {before[1]} of the same agent was completed: correct its times"
                yield Finding(4, "error", joined(path, name), message)
            elif latest is not None and start < latest[0]:
                message = (
                    f"The turn starts before {latest[1]} was over: right for runs side by side, else sort the turns"
                )
                yield Finding(4, "warning", joined(path, name), message)
        if isinstance(agent, str) and completed is not None and (agent not in ends or ends[agent][0] < completed):
            ends[agent] = (completed, path)
        if end is not None and (latest is None or latest[0] < end):
            latest = (end, path)


def message_order(document: Fields) -> Iterator[Finding]:
    """Rule 5: messages are in chronological order. For system messages, events from elsewhere, it is a warning."""
    for path, turn in objects(document, "turns"):
        before: datetime | None = None
        for at, message in objects(turn, "messages", path):
            stamp = moment(message.get("timestamp"))
            system = message.get("message_type") == "system"
            if stamp is not None and before is not None and stamp < before:
                text = "The message is older than the one before it: sort the messages, or correct its time"
                yield Finding(5, "warning" if system else "error", joined(at, "timestamp"), text)
            elif stamp is not None and not system:
                before = stamp


def metadata_keys(document: Fields) -> Iterator[Finding]:
    """Rule 6: keys of client_metadata contain a namespace separator."""
    for path, turn in objects(document, "turns"):
        metadata = turn.get("client_metadata")
        for key in metadata if isinstance(metadata, dict) else ():
            if not NAMESPACED.search(key):
                example = shown(f"app.{key}")
                message = f"The key {shown(key)} has no namespace: name it like {example}; one of : . / _ - separates"
                yield Finding(6, "error", joined(path, "client_metadata", key), message)


def content_refs(document: Fields) -> Iterator[Finding]:
    """Rule 7: a content reference is a URI with a scheme that readers know."""
    for path, part in _parts(document):
        ref = part.get("content_ref")
        for where, uri in texts("uri", of=ref, path=joined(path, "content_ref")) if isinstance(ref, dict) else ():
            match = URI.fullmatch(uri)
            scheme = match[1].lower() if match else ""
            if match is None or (scheme in SCHEMES and not re.match(r"//[^/?#]", match[2])):
                message = f"{shown(uri)} is no URI: write it like s3://bucket/key, other characters percent-encoded"
                yield Finding(7, "error", where, message)
            elif scheme not in SCHEMES:
                why = "for development only" if scheme == "file" else "not one of https, s3, gs, azure: document it"
                yield Finding(7, "warning", where, f"The scheme '{scheme}' is {why}")


def thread_ids(document: Fields) -> Iterator[Finding]:
    """Rule 8: the targets of links are UUIDs, and so is the thread's id."""
    owners: list[tuple[str, Fields, int | str]] = [("", document, "schema")]
    if isinstance(document.get("relationships"), dict):
        owners += [(path, link, 8) for path, link in objects(document["relationships"], "links", "relationships")]
    for path, owner, rule in owners:
        for where, value in texts("thread_id", of=owner, path=path):
            if not is_uuid(value):
                message = f"{shown(value)} is no UUID: write 36 characters, like 6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11"
                yield Finding(rule, "error", where, message)


def endings(document: Fields) -> Iterator[Finding]:
    """Yield findings on the ends of turns.

    An interrupted turn has an interruption and no `completed_at`; a complete turn has `completed_at`.
    """
    old = document.get("version") == "0.0.3"
    for path, turn in objects(document, "turns"):
        if turn.get("turn_type") != "agent":
            continue
        completed, interruption = turn.get("completed_at"), turn.get("interruption")
        if turn.get("completion_status") == "interrupted":
            if old:
                message = "0.0.3 has no interrupted turns: write version 0.0.4, or drop the turn"
                yield Finding("version", "error", joined(path, "completion_status"), message)
            if interruption is None or (isinstance(interruption, dict) and interruption.get("reason") == ""):
                message = "An interrupted turn says why: add interruption {reason, interrupted_at}"
                yield Finding("interruption", "error", joined(path, "interruption"), message)
            if completed is not None:
                message = "An interrupted turn was never completed: drop this, interruption.interrupted_at says when"
                yield Finding("completed_at", "error", joined(path, "completed_at"), message)
        else:
            if interruption is not None:
                message = "A complete turn has no interruption: drop it, or set completion_status to interrupted"
                yield Finding("interruption", "warning", joined(path, "interruption"), message)
            if completed is None:
                severity: Severity = "error" if old else "warning"
                yield Finding("completed_at", severity, joined(path, "completed_at"), "Say when the turn was completed")


def complete_cycles(document: Fields) -> Iterator[Finding]:
    """Yield findings on tool calls that the request after their response doesn't answer.

    Only a complete turn may end with open calls, which its client runs. Earlier open calls are a warning in a complete
    turn, and an error in an interrupted one.
    """
    for path, turn in objects(document, "turns"):
        interrupted = turn.get("completion_status") == "interrupted"
        messages = list(objects(turn, "messages", path))
        responses = [n for n, (_, message) in enumerate(messages) if message.get("message_type") == "response"]
        for number, following in pairwise([*responses, len(messages)]):
            where, response = messages[number]
            if interrupted and response.get("parts") == []:
                message = "A response without complete parts is not stored: drop it, total_usage keeps its tokens"
                yield Finding("cycles", "warning", joined(where, "parts"), message)
            if number == responses[-1] and not interrupted:
                continue
            requests = [request for _, request in messages[number + 1 : following]]
            answers = [part.get("tool_call_id") for request in requests for _, part in objects(request, "parts")]
            for at, part in objects(response, "parts", where):
                call_id = part.get("tool_call_id")
                if part.get("part_kind") == "tool-call" and call_id not in answers:
                    message = (
                        f"No request behind this response answers the call {shown(call_id)}: add its return, or drop it"
                    )
                    yield Finding("cycles", "error" if interrupted else "warning", at, message)


def stored_parts(document: Fields) -> Iterator[Finding]:
    """Yield findings on parts: no system prompts, tool arguments as data, files with content or a reference."""
    for path, turn in objects(document, "turns"):
        for owner_path, owner in ((path, turn), *objects(turn, "messages", path)):
            for at, part in objects(owner, "parts", owner_path):
                kind = part.get("part_kind")
                if kind == "system-prompt":
                    message = "System prompts are not stored: drop the part, the agent's config_ref may lead to it"
                    yield Finding("system-prompt", "error", joined(at, "part_kind"), message)
                elif kind == "tool-call" and isinstance(part.get("args"), str):
                    message = "Tool arguments are stored as data: parse this JSON text"
                    yield Finding("tool-args", "error", joined(at, "args"), message)
                elif kind == "file" and part.get("content") is None and part.get("content_ref") is None:
                    message = "A file part without its file: add content, or a content_ref"
                    yield Finding("file", "error", joined(at, "content"), message)


def _parts(document: Fields) -> Iterator[tuple[str, Fields]]:
    for path, turn in objects(document, "turns"):
        yield from objects(turn, "parts", path)
        for at, message in objects(turn, "messages", path):
            yield from objects(message, "parts", at)


def _registry(document: Fields) -> Fields:
    return object_of(document.get("agents"))


RULES: Final[tuple[Callable[[Fields], Iterator[Finding]], ...]] = (
    times,
    tool_call_ids,
    agent_ids,
    overlaps,
    message_order,
    metadata_keys,
    content_refs,
    thread_ids,
)
INVARIANTS: Final[tuple[Callable[[Fields], Iterator[Finding]], ...]] = (endings, complete_cycles, stored_parts)
