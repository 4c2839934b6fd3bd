"""Makes the ThreadProtocol 0.0.4 document of a thread from its turn records.

The result depends on the content of the records, not on their order, number or batches: of two records of one turn, the
one with more events is used, then the complete one, then the higher revision, then the one whose end came from the
publisher. So a record with all events of another one always wins; if each has events that the other lacks, the store
decides which one to keep (stores.threads.write). Turns are sorted by time, and facts are merged in the same order.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pipeline.turns.branches import BRANCH
from pipeline.turns.run_tree import marked_turns
from pipeline.turns.times import bounded, epoch_ms, iso
from topics import json_text, turn_record
from topics.json_text import Fields, filled, object_of, objects
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
    head = DocumentHead()
    for record in of_thread:
        head.add(record)
    return {**head.fields(thread_id), "turns": marked_turns(of_thread), **relationships(thread_id, chosen)}


class DocumentHead:
    """What a document says before its turns, from its records one after the other, in order; none of them is kept."""

    def __init__(self) -> None:
        self._facts: Fields = {}
        self._metadata: Fields = {}
        self._configs: dict[str, Fields] = {}
        self._undated: set[str] = set()  # agents whose first config has no time: they are as old as the thread
        self._speakers: dict[str, str] = {}  # agents that speak -> the time of their first turn
        self._spans: dict[bool, tuple[int, int]] = {}  # of turns, of facts

    def add(self, record: TurnRecord) -> None:
        """Add what a record says of its thread: newer facts replace older ones."""
        first, last = span(record)
        turn = record["turn"]
        known = self._spans.get(turn is not None, (first, last))
        self._spans[turn is not None] = min(known[0], first), max(known[1], last)
        thread: Mapping[str, Any] = record.get("thread") or {}
        if thread.get("title"):
            self._facts["title"] = thread["title"]
        if isinstance(thread.get("metadata"), dict):
            self._metadata.update(thread["metadata"])
        for key in ("external_id", "ended_at"):
            if thread.get(key) is not None:
                self._metadata[f"meta:{key}"] = thread[key]
        self._facts.update({key: value for key, value in thread.items() if key not in DERIVED})
        for config in agent_configs(record):
            self._add_agent(config)
        for agent_id in _agents_of(turn or {}):
            self._speakers.setdefault(agent_id, iso(first))

    def _add_agent(self, config: Fields) -> None:
        """Add an AgentConfig: the newest counts, with the earliest `created_at`."""
        agent_id = config["agent_id"]
        known = self._configs.get(agent_id, {})
        created = _earliest(known.get("created_at"), config.get("created_at"))
        if not known and created is None:
            self._undated.add(agent_id)
        self._configs[agent_id] = {"agent_name": agent_id, **known, **config, "created_at": created}

    def fields(self, thread_id: str) -> Fields:
        """Return the members of a document before `turns`."""
        first, last = self._spans.get(True) or self._spans.get(False) or (0, 0)
        created_at = iso(first)
        agents = {
            agent_id: {**config, "created_at": _earliest(created_at, config["created_at"])}
            if agent_id in self._undated
            else config
            for agent_id, config in self._configs.items()
        }
        for agent_id, started in self._speakers.items():
            agents.setdefault(agent_id, {"agent_id": agent_id, "agent_name": agent_id, "created_at": started})
        dates = {"created_at": created_at, "updated_at": iso(last)}
        facts = self._facts | filled({"metadata": self._metadata})
        return {"version": VERSION, "thread_id": thread_id, **dates, **facts, "agents": agents}


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
            stated = min(_times(config.get("created_at") for config in objects(record.get("agents"))), default=0)
        return bounded(stated), bounded(stated)
    told = [turn.get("submitted_at"), turn.get("started_at"), turn.get("completed_at")]
    told.append(object_of(turn.get("interruption")).get("interrupted_at"))
    times = _times(told) or _times(message.get("timestamp") for message in objects(turn.get("messages")))
    return (times[0], max(times)) if times else (0, 0)


def _times(told: Iterable[Any]) -> list[int]:
    return [at for value in told if (at := epoch_ms(value)) is not None]


def _earliest(*times: Any) -> Any:
    """Return the earliest of these times; None if none is valid."""
    return min((at for at in times if epoch_ms(at) is not None), key=lambda at: epoch_ms(at) or 0, default=None)


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


def relationships(thread_id: str, records: Iterable[TurnRecord]) -> Fields:
    """Return {"relationships": {"links"}} with the links that start at the thread, each once; {} without any."""
    links: dict[str, Fields] = {}
    for record in records:
        for source, link in outgoing(record):
            if source == thread_id:
                links.setdefault(json_text.dumps(sorted(link.items())), link)
    return {"relationships": {"links": list(links.values())}} if links else {}


def only_turns(document: Fields, ids: Collection[object]) -> Fields:
    """Return a thread document with these turns alone, whatever branches they are of."""
    some = (turn for turn in document["turns"] if turn.get("meta:turn_id") in ids)
    return {**document, "turns": [{name: turn[name] for name in turn if name != BRANCH} for turn in some]}


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
