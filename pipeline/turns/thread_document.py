"""Makes the ThreadProtocol 0.0.4 document of a thread from its turn records.

The result depends on the content of the records, not on their order, number or batches: of two records of one turn, the
one with more events is used, then the complete one, then the higher revision, then the one whose end came from the
publisher. So a record with all events of another one always wins; if each has events that the other lacks, the store
decides which one to keep (stores.threads.write). Turns are sorted by time, and facts are merged in the same order.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.turns.run_tree import marked_turns
from pipeline.turns.times import bounded, epoch_ms, iso
from topics import json_text, turn_record
from topics.json_text import Fields, filled, object_of
from topics.turn_record import TurnRecord

VERSION = "0.0.4"
Rank = tuple[int, tuple[bool, int, bool, str]]
ROLES = {"user": 0, "agent": 1}
GIVEN_UP = ("timeout", "events_lost")  # reasons set by a worker; all others come from the publisher
# Fields of a record's `thread` that are ignored: the document derives them, or has them elsewhere.
DERIVED = frozenset(
    {"version", "thread_id", "created_at", "updated_at", "agents", "turns", "relationships", "title", "metadata"}
    | {"external_id", "ended_at"}
)
EARLIER = "meta:earlier"  # of a document: the number of turns left out
BEFORE = 2  # turns that are shown before the requested one, which may answer them


def thread_document(thread_id: str, records: Iterable[TurnRecord]) -> Fields:
    """Return {version, thread_id, created_at, updated_at, title?, metadata?, agents, turns, relationships?}.

    Of records of other threads, only links that start at this thread are used.
    """
    chosen = sorted(newest(records), key=position)
    of_thread = [record for record in chosen if record["thread_id"] == thread_id]
    spans = [span(record) for record in of_thread if record["turn"] is not None] or [
        span(record) for record in of_thread
    ]
    created_at = iso(min((first for first, _ in spans), default=0))
    document: Fields = {
        "version": VERSION,
        "thread_id": thread_id,
        "created_at": created_at,
        "updated_at": iso(max((last for _, last in spans), default=0)),
        **_thread_facts(of_thread),
        "agents": _agents(of_thread, created_at),
        "turns": marked_turns(of_thread),
    }
    links = _links(thread_id, chosen)
    if links:
        document["relationships"] = {"links": links}
    return document


def newest(records: Iterable[TurnRecord]) -> list[TurnRecord]:
    """Return the highest-ranking record of each turn."""
    best: dict[tuple[str, str], TurnRecord] = {}
    for record in records:
        key = (record["thread_id"], record["turn_id"])
        rival = best.get(key)
        if rival is None or rank(record) > rank(rival):
            best[key] = record
    return list(best.values())


def rank(record: TurnRecord) -> Rank:
    """Return the sort key of records of one turn: number of events, complete, revision, ended by the publisher, digest.

    Events come first, so that a record with all events of another one, and more, ranks above it; a revision can't
    decide, since a worker that has lost its partition without noticing goes on counting revisions. The publisher's end
    counts, since a worker may close a run by timeout, and die before it marks that; the next one reads the same events
    and the publisher's end. The digest decides if all else is equal, so that every reader chooses the same record.
    """
    by_publisher = interruption(record) not in GIVEN_UP
    decides = record["status"] == "complete", record["revision"], by_publisher, digest(record)
    return record.get("events", 0), decides


def interruption(record: TurnRecord) -> Any:
    """Return the reason of a record's interruption: a text, or any value of a faulty producer; None if missing."""
    return object_of((record["turn"] or {}).get("interruption")).get("reason")


def digest(record: TurnRecord) -> str:
    """Return the SHA-256 of the whole record, hex."""
    return hashlib.sha256(turn_record.encode(record)).hexdigest()


def position(record: TurnRecord) -> tuple[int, int, str, int, str]:
    """Return the sort key of a thread's records: time, user before agent, order within the run."""
    return span(record)[0], role(record), record["run_id"], record.get("ordinal", 0), record["turn_id"]


def role(record: TurnRecord) -> int:
    """Return 0 for a user turn, 1 for an agent turn, 2 for a record without turn."""
    return ROLES.get(str((record["turn"] or {}).get("turn_type")), 2)


def span(record: TurnRecord) -> tuple[int, int]:
    """Return the first and last time of a record's turn, epoch ms; without a turn, the time of its facts."""
    turn = record["turn"]
    if turn is None:
        stated = record.get("at")
        if stated is None:
            stated = min(_times(record.get("agents") or [], "created_at"), default=0)
        return bounded(stated), bounded(stated)
    interruption = turn.get("interruption")
    times = [
        *_times([turn], "submitted_at", "started_at", "completed_at"),
        *_times([interruption] if isinstance(interruption, dict) else [], "interrupted_at"),
    ] or list(_times(turn.get("messages") or [], "timestamp"))
    return (times[0], max(times)) if times else (0, 0)


def _times(objects: Iterable[Any], *keys: str) -> Iterator[int]:
    for item in objects:
        for key in keys:
            at = epoch_ms(item.get(key)) if isinstance(item, dict) else None
            if at is not None:
                yield at


def _thread_facts(records: Iterable[TurnRecord]) -> Fields:
    """Return title, metadata and unknown fields, each from the newest record that has it."""
    facts: Fields = {}
    metadata: Fields = {}
    for record in records:
        thread: Mapping[str, Any] = record.get("thread") or {}
        if thread.get("title"):
            facts["title"] = thread["title"]
        if isinstance(thread.get("metadata"), dict):
            metadata.update(thread["metadata"])
        for key in ("external_id", "ended_at"):
            if thread.get(key) is not None:
                metadata[f"meta:{key}"] = thread[key]
        facts.update({key: value for key, value in thread.items() if key not in DERIVED})
    return facts | filled({"metadata": metadata})


def _agents(records: Iterable[TurnRecord], created_at: str) -> dict[str, Fields]:
    """Return AgentConfigs by agent_id, of every agent with a turn: the newest, with the earliest `created_at`."""
    agents: dict[str, Fields] = {}
    for record in records:
        for config in agent_configs(record):
            known = agents.get(config["agent_id"], {})
            created = [at for at in (known.get("created_at"), config.get("created_at")) if epoch_ms(at) is not None]
            earliest = min(created, key=lambda at: epoch_ms(at) or 0, default=created_at)
            agents[config["agent_id"]] = {"agent_name": config["agent_id"], **known, **config, "created_at": earliest}
    for record in records:
        for agent_id in _agents_of(record["turn"] or {}):
            started = iso(span(record)[0])
            agents.setdefault(agent_id, {"agent_id": agent_id, "agent_name": agent_id, "created_at": started})
    return agents


def _agents_of(turn: Fields) -> Iterator[str]:
    for item in (turn, *(turn.get("messages") or ())):
        if isinstance(item, dict) and isinstance(item.get("agent_id"), str):
            yield item["agent_id"]


def agent_configs(record: TurnRecord) -> list[Fields]:
    """Return a record's AgentConfig objects; entries without an agent_id are left out."""
    configs: Iterable[Any] = record.get("agents") or []
    return [config for config in configs if isinstance(config, dict) and isinstance(config.get("agent_id"), str)]


def outgoing(record: TurnRecord) -> Iterator[tuple[str, Fields]]:
    """Yield a record's links as (thread_id at which it starts, ThreadLink)."""
    links: Iterable[Any] = record.get("links") or []
    for link in links:
        if isinstance(link, dict) and isinstance(link.get("thread_id"), str):
            source = str(link.get("from") or record["thread_id"])
            yield source, {key: value for key, value in link.items() if key != "from"}


def _links(thread_id: str, records: Iterable[TurnRecord]) -> list[Fields]:
    """Return the outgoing links, each once."""
    links: dict[str, Fields] = {}
    for record in records:
        for source, link in outgoing(record):
            if source == thread_id:
                links.setdefault(json_text.dumps(sorted(link.items())), link)
    return list(links.values())


class UnknownTurn(ValueError):
    """The thread has no such turn."""


def last_turns(document: Fields, most: int | None = None, since: str | None = None) -> Fields:
    """Return a thread document with its last `most` turns, or all from the turn `since` on and BEFORE more.

    With both, whichever is more. EARLIER has the number of turns left out. Raises UnknownTurn.
    """
    if most is None and since is None:
        return document
    turns = document["turns"]
    first = len(turns) if most is None else max(0, len(turns) - most)
    if since is not None:
        start = next((n for n, turn in enumerate(turns) if turn.get("meta:turn_id") == since), None)
        if start is None:
            raise UnknownTurn(f"no turn of this thread is called {since!r:.200}")
        first = min(first, max(0, start - BEFORE))
    if not first:
        return document
    return {**document, "turns": turns[first:], EARLIER: first}
