"""Conversion of a turn record to its rows; the row of a thread, and how new turns change it. Pure.

Nearly always a turn follows all others of its thread, and the new row is computed from the old row and the turn. With a
late turn only its sums are, and the store looks for the newest values (`statements.latest_values`). When a turn is
replaced, the row is derived from all turns again (`statements.refresh_threads`).
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.costs.rows import usage_rows
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.keys import Agent, key_of, turn_bytes
from pipeline.stores.database.packing import packed, unpacked
from pipeline.turns.column_text import column_text, snippet
from pipeline.turns.event_coverage import Version, ranges_of
from pipeline.turns.pending import pending
from pipeline.turns.requests import without_bodies
from pipeline.turns.run_tree import may_fork
from pipeline.turns.thread_document import GIVEN_UP, agent_configs, interruption, outgoing, role, span
from topics import json_text, turn_record
from topics.json_text import list_of, object_of
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.identity import trace_thread, turn_id
from turnmill.wire.registry import OTEL

FIRST: Final = ("user", "")  # ordinals, as in pipeline.assembly.finish
USER, AGENT = 0, 1  # roles
FACTS: Final = 2  # the role of a record without turn
BROKEN_OFF, INTERRUPTED, COMPLETE = 0, 1, 2  # statuses: by a worker, by the publisher
DIGEST_BYTES: Final = 16
ROLE_BITS: Final = 2
ELEMENT: Final = re.compile(r"\s*<([a-z][\w-]*)>.*</\1>\s*", re.DOTALL)  # <environment_context>, <system-reminder>

Row = dict[str, Any]
TurnKey = tuple[ThreadKey, bytes]  # a thread, and a turn's id as `keys.turn_bytes`


class RecordRows(NamedTuple):
    """A record as rows: a row of `turns`, any number of the other tables, all without the database's integers.

    `usage`: with the names of each row, and the source of its price, as text. `family`: the keys of this turn and of
    the run's first turns of user and agent. Each version of a run contains some of these, so they show what the
    store has of the run.
    """

    thread: ThreadKey
    record: TurnRecord
    turn: Row
    links: list[Row]
    usage: list[Row]
    key: TurnKey  # its thread, and the id of its turn
    version: Version  # the record's position among the versions of its run
    requests: Mapping[str, Any]  # what its responses requested: hash -> body
    family: frozenset[TurnKey]

    @property
    def started_by(self) -> set[ThreadKey]:
        """The threads that, according to the record, started its run: the run is a sub-agent's."""
        return {ThreadKey(thread_id, self.thread.tenant) for thread_id in starters(self.record)}

    @property
    def made_of(self) -> set[ThreadKey]:
        """The thread of the trace that its run was made of; late spans may make the run anew, in another thread."""
        source = trace_thread(self.turn["run_id"], self.thread.tenant) if self.record.get("dialect") == OTEL else None
        return set() if source is None else {ThreadKey(source, self.thread.tenant)}

    @property
    def order(self) -> tuple[Any, ...]:
        """A sort key among a thread's records, as `statements.ORDER`."""
        turn = self.turn
        return turn["started_at"], turn["role"], turn["run_id"], turn["ordinal"], turn["turn_id"]


def rank_of(events: int, status: int, revision: int, digest: bytes) -> tuple[int, Any]:
    """Return the rank of a record among those of its turn: the order of pipeline.turns.thread_document.rank."""
    return events, (status == COMPLETE, revision, status > BROKEN_OFF, digest)


def record_rows(record: TurnRecord, value: bytes | None = None, prices: Prices = NONE) -> RecordRows:
    """Return the rows of a turn record. `value`: its original JSON, if known; `prices`: the operator's."""
    requests = cast("dict[str, Any]", record).get("requests")  # of a foreign record: anything
    if requests is not None:  # requests have separate rows
        record, value = without_bodies(record), _without_requests(value, requests)
    thread = key_of(record)
    turn = _turn(record, _text(record, value))
    key = thread, turn["turn_id"]
    family = {key}
    with suppress(ValueError):  # the thread id of a foreign record may not be a UUID
        for ordinal in FIRST:
            family.add((thread, turn_bytes(turn_id(record["thread_id"], record["run_id"], ordinal))))
    rank = rank_of(turn["events"], turn["status"], turn["revision"], turn["digest"])
    return RecordRows(
        thread=thread,
        record=record,
        turn=turn,
        links=[
            {
                "position": number,
                "source": column_text(source),
                "target": column_text(link["thread_id"]),
                "relation": column_text(link.get("relation", "referenced")),
            }
            for number, (source, link) in enumerate(outgoing(record))
        ],
        usage=usage_rows(record, prices),
        key=key,
        version=Version(ranges_of(record), rank),
        requests=object_of(requests),
        family=frozenset(family),
    )


def agents_of(record: TurnRecord) -> list[Agent]:
    """Return the agents that a record names, each once."""
    names = _agent_names(record)
    return [Agent(column_text(agent_id) or "", column_text(name)) for agent_id, name in names.items()]


def _agent_names(record: TurnRecord) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for config in agent_configs(record):
        names[config["agent_id"]] = config.get("agent_name")
    if record["turn"] is not None and record["turn"].get("turn_type") == "agent":
        names.setdefault(record["agent_id"], None)
    return names


def _text(record: TurnRecord, value: bytes | None) -> bytes:
    if value is not None:
        with suppress(UnicodeDecodeError):
            value.decode()
            return value
    return turn_record.encode(record)


def _without_requests(value: bytes | None, requests: Any) -> bytes | None:
    """Return a record's JSON without its requests if these are its last member, as we write it; else None."""
    last = turn_record.last_member(requests)
    return value[: -len(last)] + b"}" if value is not None and value.endswith(last) else None


def _turn(record: TurnRecord, text: bytes) -> Row:
    if not isinstance(record["status"], str):
        raise TypeError("the status of a turn record is no text")
    started_at, ended_at = span(record)
    thread: Mapping[str, Any] = record.get("thread") or {}
    by_worker = interruption(record) in GIVEN_UP
    asked = _asked(record, ended_at)
    return {
        "turn_id": turn_bytes(record["turn_id"]),
        "run_id": column_text(record["run_id"]),
        "ordinal": record.get("ordinal", 0),
        "role": role(record),
        "status": COMPLETE if record["status"] == "complete" else BROKEN_OFF if by_worker else INTERRUPTED,
        "revision": min(record["revision"], MAX_INTEGER),
        "events": min(record.get("events", 0), MAX_INTEGER),
        "digest": hashlib.sha256(text).digest()[:DIGEST_BYTES],
        "started_at": started_at,
        "ended_at": ended_at,
        "external_id": column_text(thread.get("external_id")),
        "title": column_text(thread.get("title") or None),
        "prompt": column_text(prompt(record["turn"])),
        "asked": None if asked is None else json_text.dumps(asked),
        "record": packed(text),
    }


def _asked(record: TurnRecord, ended_at: int) -> Row | None:
    """Return a turn's questions, with the columns that `pipeline.stores.threads.reading` lists; None without any."""
    asked = pending(record["turn"])
    if not asked:
        return None
    name = _agent_names(record).get(record["agent_id"])
    who = {"agent_id": record["agent_id"], "agent_name": name, "dialect": record.get("dialect", "")}
    identity = {"turn_id": record["turn_id"], "run_id": record["run_id"]}
    return {**identity, **who, "since": ended_at, "asked": asked}


def record_of(stored: bytes) -> TurnRecord:
    """Return the turn record that a row of `turns` contains."""
    record: TurnRecord = json_text.loads(unpacked(stored).decode())
    return record


def starters(record: TurnRecord) -> set[str]:
    """Return the ids of the other threads that a record names as those that started its run."""
    its_id, named = record["thread_id"], set[str]()
    parent, links = record.get("parent"), record.get("links")
    for link in (parent, *list_of(links)):
        if not isinstance(link, dict):
            continue
        started = link is parent or (link.get("relation") == "spawned_from" and link.get("from", its_id) == its_id)
        thread_id = link.get("thread_id")
        if started and isinstance(thread_id, str) and thread_id != its_id:
            named.add(thread_id)
    return named


def without_links(record: TurnRecord, to: Collection[str]) -> TurnRecord:
    """Return the record without its links to the threads in `to`."""
    links = record.get("links")
    if not to or not isinstance(links, list):
        return record
    return {
        **record,
        "links": [link for link in links if not isinstance(link, dict) or link.get("thread_id") not in to],
    }


def prompt(turn: Mapping[str, Any] | None) -> str | None:
    """Return the beginning of a user turn's text; None if it has none.

    What a coding agent has put before the question, an element by itself, counts only if nothing else was said.
    """
    if turn is None or turn.get("turn_type") != "user":
        return None
    context: str | None = None
    for part in turn.get("parts") or ():
        content = object_of(part).get("content")
        for text in content if isinstance(content, list) else [content]:
            if isinstance(text, str) and text.strip():
                if not ELEMENT.fullmatch(text):
                    return snippet(text)
                context = context or snippet(text)
    return context


class ThreadRow(NamedTuple):
    """The columns of `threads` that follow from its turns; `asked` as JSON text."""

    id: int
    external_id: str | None
    title: str | None
    prompt: str | None
    status: int | None
    turns: int
    total_tokens: int
    cost_nano_usd: int | None
    model: str | None
    duration_ms: int | None
    created_at: int
    updated_at: int
    newest: int | None
    asked: str | None
    may_fork: int  # `run_tree.may_fork` of any of its records, also of replaced ones; SQLite has no booleans


def sort_key(rows: RecordRows) -> int:
    """Return the sort key of a thread's record: by time, at the same time users' turns before agents'."""
    return int(rows.turn["started_at"] << ROLE_BITS | rows.turn["role"])


def with_turns(row: ThreadRow, added: Iterable[RecordRows]) -> tuple[ThreadRow, bool]:
    """Return a thread's row after these new records, and True if any belongs before a stored record.

    Then only the sums, the times and the position are right: which values are the newest is for the store to say.
    """
    records = sorted(added, key=attrgetter("order"))
    is_late = row.newest is not None and sort_key(records[0]) <= row.newest
    for record in records:
        row = _with(row, record)
    return row, is_late


def _with(row: ThreadRow, rows: RecordRows) -> ThreadRow:
    """Return the row after a record: whole if it is the thread's last."""
    turn, real = rows.turn, rows.turn["role"] != FACTS
    begun, ended = turn["started_at"], turn["ended_at"]
    if row.turns and not real:  # the times of a thread are those of its turns, if it has any
        begun, ended = row.created_at, row.updated_at
    elif (row.turns > 0) == real and row.newest is not None:
        begun, ended = min(row.created_at, begun), max(row.updated_at, ended)
    tokens, cost = row.total_tokens, row.cost_nano_usd
    for used in rows.usage:
        tokens += used["total_tokens"] or 0
        if used["cost_nano_usd"] is not None:
            cost = (cost or 0) + used["cost_nano_usd"]
    return ThreadRow(  # `_replace` would take as long as all of the above
        id=row.id,
        external_id=row.external_id if turn["external_id"] is None else turn["external_id"],
        title=row.title if turn["title"] is None else turn["title"],
        prompt=turn["prompt"] if row.prompt is None else row.prompt,
        status=turn["status"] if real else row.status,
        turns=row.turns + real,
        total_tokens=min(tokens, MAX_INTEGER),
        cost_nano_usd=None if cost is None else min(cost, MAX_INTEGER),
        model=rows.usage[-1]["model"] if rows.usage else row.model,
        duration_ms=turn["ended_at"] - turn["started_at"] if rows.usage else row.duration_ms,
        created_at=begun,
        updated_at=ended,
        newest=max(sort_key(rows), row.newest or 0),
        asked=turn["asked"] if real else row.asked,
        may_fork=bool(row.may_fork) or may_fork(rows.record),
    )
