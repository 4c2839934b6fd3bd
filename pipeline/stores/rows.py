"""A turn record <-> its rows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pipeline.stores.bounded_sum import MAX_INTEGER
from pipeline.stores.keys import key_of, key_text
from pipeline.stores.usage import usage_rows
from pipeline.turns.column_text import column_text, snippet
from pipeline.turns.held_events import Ranges, Version, ranges_of
from pipeline.turns.pending import pending
from pipeline.turns.thread_document import GIVEN_UP, agent_configs, digest, interruption, outgoing, role, span
from topics import json_text
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.identity import turn_id

FIRST: Final = ("user", "")  # ordinals, as in pipeline.assembly.finish

Row = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RecordRows:
    """One record as rows: of `turns` one, of the other tables any number. `thread`: whose it is; `json`: the JSON
    columns of `turn` as text.
    """

    thread: ThreadKey
    turn: Row
    json: dict[str, str | None]
    agents: list[Row]
    links: list[Row]
    usage: list[Row]
    ranges: Ranges
    first_turns: tuple[str, ...]  # turn ids

    @property
    def started_by(self) -> set[ThreadKey]:
        """The threads that started its run, as it says: the run is a sub-agent's."""
        return {ThreadKey(thread_id, self.thread.tenant) for thread_id in starters(self.turn["facts"])}

    @property
    def key(self) -> Key:
        """(thread_key, turn_id)."""
        return self.turn["thread_key"], self.turn["turn_id"]

    @property
    def version(self) -> Version:
        """The record among those of its run; its rank is the same as pipeline.turns.thread_document.rank."""
        turn = self.turn
        by_publisher = turn["interruption"] not in GIVEN_UP
        decides = turn["status"] == "complete", turn["revision"], by_publisher, turn["digest"]
        return Version(self.ranges, (turn["events"], decides))

    @property
    def family(self) -> set[Key]:
        """The keys of this turn, and of those that each version of its run has one of at least: the first turns of
        user and agent. They tell what the store has of the run.
        """
        thread_key, turn_id = self.key
        return {(thread_key, turn_id), *((thread_key, first) for first in self.first_turns)}


def record_rows(record: TurnRecord) -> RecordRows:
    """Turn record -> rows."""
    thread = key_of(record)
    identity = {"thread_key": key_text(thread), "turn_id": record["turn_id"]}
    agent_names = {config["agent_id"]: config.get("agent_name") for config in agent_configs(record)}
    if record["turn"] is not None and record["turn"].get("turn_type") == "agent":
        agent_names.setdefault(record["agent_id"], None)
    turn, json = _turn(record)
    turn |= identity
    asked = turn["asked"] = _asked(record, turn, agent_names)
    json["asked"] = None if asked is None else json_text.dumps(asked)
    return RecordRows(
        thread=thread,
        turn=turn,
        json=json,
        agents=[
            identity | {"agent_id": column_text(agent_id), "agent_name": column_text(name)}
            for agent_id, name in agent_names.items()
        ],
        links=[
            identity
            | {
                "position": number,
                "source": key_text(ThreadKey(source, thread.tenant)),
                "target": key_text(ThreadKey(link["thread_id"], thread.tenant)),
                "relation": column_text(link.get("relation", "referenced")),
            }
            for number, (source, link) in enumerate(outgoing(record))
        ],
        usage=[identity | row for row in usage_rows(record)],
        ranges=ranges_of(record),
        first_turns=_first_turns(record),
    )


def _first_turns(record: TurnRecord) -> tuple[str, ...]:
    with suppress(ValueError):  # the thread of a foreign record may be no UUID
        return tuple([turn_id(record["thread_id"], record["run_id"], ordinal) for ordinal in FIRST])
    return ()


def _turn(record: TurnRecord) -> tuple[Row, dict[str, str | None]]:
    """-> the row, and its JSON columns as text."""
    started_at, ended_at = span(record)
    thread: Mapping[str, Any] = record.get("thread") or {}
    facts = {key: value for key, value in record.items() if key != "turn"}
    document, inside = _document(record["turn"])
    row = {
        "run_id": column_text(record["run_id"]),
        "ordinal": record.get("ordinal", 0),
        "role": role(record),
        "agent_id": column_text(record["agent_id"]),
        "tenant": column_text(record.get("tenant") or None),
        "dialect": column_text(record.get("dialect", "")),
        "status": record["status"],
        "interruption": column_text(interruption(record)),
        "revision": min(record["revision"], MAX_INTEGER),
        "digest": digest(record, inside),
        "hash": record.get("hash"),
        "events": min(record.get("events", 0), MAX_INTEGER),
        "started_at": started_at,
        "ended_at": ended_at,
        "external_id": column_text(thread.get("external_id")),
        "title": column_text(thread.get("title") or None),
        "prompt": column_text(prompt(record["turn"])),
        "facts": facts,
        "document": record["turn"],
    }
    return row, {"facts": json_text.dumps(facts), "document": document}


def _document(turn: Row | None) -> tuple[str | None, bytes | None]:
    """A turn as JSON text, and the same as orjson writes it inside of something, where it does."""
    if turn is None:
        return None, None
    try:
        inside = orjson.dumps([turn])[1:-1]
    except TypeError:
        return json_text.dumps(turn), None
    return inside.decode(), inside


def _asked(record: TurnRecord, turn: Row, agent_names: Mapping[str, str | None]) -> Row | None:
    """What a turn waits for, with what a list of such threads says of the turn: see `pipeline.stores.waiting`."""
    asked = pending(record["turn"])
    if not asked:
        return None
    name = agent_names.get(record["agent_id"])
    who = {"agent_id": record["agent_id"], "agent_name": name, "dialect": record.get("dialect", "")}
    identity = {"turn_id": record["turn_id"], "run_id": record["run_id"]}
    return {**identity, **who, "since": turn["ended_at"], "asked": asked}


def record_of(facts: Row, document: Row | None) -> TurnRecord:
    """The two JSON columns -> the turn record that they came from."""
    return {**facts, "turn": document}  # type: ignore[typeddict-item]  # record_rows took it apart


def starters(facts: Mapping[str, Any]) -> set[str]:
    """The ids of the other threads that a record names as those that started its run."""
    own, parent = facts["thread_id"], facts.get("parent")
    said = [parent.get("thread_id")] if isinstance(parent, dict) else []
    links = facts.get("links")
    said += [
        link.get("thread_id")
        for link in (links if isinstance(links, list) else ())
        if isinstance(link, dict) and link.get("relation") == "spawned_from" and link.get("from", own) == own
    ]
    return {thread_id for thread_id in said if isinstance(thread_id, str) and thread_id != own}


def without_links(record: TurnRecord, to: Collection[str]) -> TurnRecord:
    """The record without its links to the threads in `to`."""
    links = record.get("links")
    if not to or not isinstance(links, list):
        return record
    return {
        **record,
        "links": [link for link in links if not isinstance(link, dict) or link.get("thread_id") not in to],
    }


def prompt(turn: Mapping[str, Any] | None) -> str | None:
    """The beginning of a user turn's text; None where it has none."""
    if turn is None or turn.get("turn_type") != "user":
        return None
    for part in turn.get("parts") or ():
        content = part.get("content") if isinstance(part, dict) else None
        for text in content if isinstance(content, list) else [content]:
            if isinstance(text, str) and text.strip():
                return snippet(text)
    return None
