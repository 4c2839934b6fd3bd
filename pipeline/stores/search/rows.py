"""Conversion of a turn to its row in the index of words. Pure.

The words of a row keep their order, have prefixes for their kind (`pipeline.stores.search.query`), and are followed by
those for tenant, agent, role and the called tools. SQLite's FTS5 reads them as they are; Postgres stores them with
their positions as a tsvector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.stores.search.query import BEFORE, BORDER, called, facet
from pipeline.stores.threads.rows import RecordRows
from pipeline.turns.column_text import column_text
from pipeline.turns.spoken_text import Kind, spoken, tools_called
from pipeline.turns.words import words

MAX_CHARACTERS: Final = 20_000  # of a turn, of each kind, that are searched
MAX_TOOLS: Final = 500  # called tools by which a turn is found


def search_words(rows: RecordRows, kinds: Sequence[Kind]) -> list[str]:
    """Return the words of a record, then its tenant, agent, role and tools; nothing if the turn has no text."""
    spoken_words = row_words(rows.record["turn"], kinds)
    if not spoken_words:
        return []
    tenant, agent_id = column_text(rows.thread.tenant) or "", column_text(rows.record["agent_id"])
    tools = sorted({called(name) for name in tools_called(rows.record["turn"])})
    return [*spoken_words, BORDER, *facets(tenant, agent_id, rows.turn["role"]), *tools[:MAX_TOOLS]]


def row_words(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> list[str]:
    """Return the words of a turn."""
    marked: list[str] = []
    for kind, text in searched_texts(document, kinds):
        some = words(text)
        if marked and some:
            marked.append(BORDER)
        marked += [BEFORE[kind] + word for word in some] if BEFORE[kind] else some
    return marked


def searched_texts(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, str]]:
    """Yield the searched texts of a turn: of each kind the first MAX_CHARACTERS."""
    room = dict.fromkeys(kinds, MAX_CHARACTERS)
    for kind, text in spoken(document):
        left = room.get(kind, 0)
        if left > 0:
            room[kind] = left - len(text)
            yield kind, text[:left]


def facets(tenant: str | None, agent_id: str | None, role: int | None) -> list[str]:
    """Return the words in the index for these; None stands for any."""
    given = (("t", tenant), ("a", agent_id), ("r", None if role is None else str(role)))
    return [facet(name, value) for name, value in given if value is not None]


def tsvector(words: Sequence[str]) -> str:
    """Return the words as the text of a tsvector; Postgres limits a word's positions to 256, none beyond 16,383."""
    return " ".join([f"{word}:{number}" for number, word in enumerate(words, 1) if word != BORDER])
