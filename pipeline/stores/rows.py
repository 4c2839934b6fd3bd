"""A turn record <-> its rows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.stores.bounded_sum import MAX_INTEGER
from pipeline.stores.usage import usage_rows
from pipeline.turns.column_text import column_text, snippet
from pipeline.turns.thread_document import GIVEN_UP, agent_configs, digest, interruption, outgoing, position, span
from topics.turn_record import TurnRecord

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordRows:
    """One record as rows: of `turns` one, of the other tables any number."""

    turn: Row
    agents: list[Row]
    links: list[Row]
    usage: list[Row]

    @property
    def key(self) -> tuple[str, str]:
        """(thread_id, turn_id)."""
        return self.turn["thread_id"], self.turn["turn_id"]

    @property
    def rank(self) -> tuple[bool, int, int, bool, str]:
        """Sort key among records of one turn, the same as pipeline.turns.thread_document.rank."""
        turn = self.turn
        by_publisher = turn["interruption"] not in GIVEN_UP
        return turn["status"] == "complete", turn["events"], turn["revision"], by_publisher, turn["digest"]


def record_rows(record: TurnRecord) -> RecordRows:
    """Turn record -> rows."""
    identity = {"thread_id": record["thread_id"], "turn_id": record["turn_id"]}
    agent_names = {config["agent_id"]: config.get("agent_name") for config in agent_configs(record)}
    if record["turn"] is not None and record["turn"].get("turn_type") == "agent":
        agent_names.setdefault(record["agent_id"], None)
    return RecordRows(
        turn=identity | _turn(record),
        agents=[
            identity | {"agent_id": column_text(agent_id), "agent_name": column_text(name)}
            for agent_id, name in agent_names.items()
        ],
        links=[
            identity
            | {
                "position": number,
                "source": column_text(source),
                "target": column_text(link["thread_id"]),
                "relation": column_text(link.get("relation", "referenced")),
            }
            for number, (source, link) in enumerate(outgoing(record))
        ],
        usage=usage_rows(record),
    )


def _turn(record: TurnRecord) -> Row:
    started_at, role, _, ordinal, _ = position(record)
    thread: Mapping[str, Any] = record.get("thread") or {}
    return {
        "run_id": column_text(record["run_id"]),
        "ordinal": ordinal,
        "role": role,
        "agent_id": column_text(record["agent_id"]),
        "tenant": column_text(record.get("tenant")),
        "dialect": column_text(record.get("dialect", "")),
        "status": record["status"],
        "interruption": column_text(interruption(record)),
        "revision": min(record["revision"], MAX_INTEGER),
        "digest": digest(record),
        "hash": record.get("hash"),
        "events": min(record.get("events", 0), MAX_INTEGER),
        "started_at": started_at,
        "ended_at": span(record)[1],
        "external_id": column_text(thread.get("external_id")),
        "title": column_text(thread.get("title") or None),
        "prompt": column_text(prompt(record["turn"])),
        "facts": {key: value for key, value in record.items() if key != "turn"},
        "document": record["turn"],
    }


def record_of(facts: Row, document: Row | None) -> TurnRecord:
    """The two JSON columns -> the turn record that they came from."""
    return {**facts, "turn": document}  # type: ignore[typeddict-item]  # record_rows took it apart


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
