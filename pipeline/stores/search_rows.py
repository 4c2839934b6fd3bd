"""A turn -> its row in the index of words. Pure.

Words of a row stand in their order, with marks for their kind (`pipeline.stores.search_query`), and end with those for
tenant, agent and role. SQLite's FTS5 reads them as they are; Postgres takes them with their places as a tsvector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.stores.search_query import BEFORE, BORDER, facet
from pipeline.turns.spoken_text import Kind, spoken
from pipeline.turns.words import words

MOST: Final = 20_000  # characters of a turn, of each kind, that are searched
TIES: Final = 21  # bits of an id below those of its time
LATEST: Final = 2**42 - 2  # epoch ms
DIGITS: Final = 16  # of a digest, that say of which version of a turn the index has the words

Row = dict[str, Any]


def search_row(turn: Mapping[str, Any], kinds: Sequence[Kind]) -> Row | None:
    """A row of `turns` -> that of `said`, whose id another row may have; None where nothing was said."""
    found = row_words(turn["document"], kinds)
    if not found:
        return None
    return {
        "id": place(turn["started_at"], turn["turn_id"], turn["thread_key"]),
        "tenant": turn["tenant"] or "",
        "words": [*found, BORDER, *facets(turn["tenant"] or "", turn["agent_id"], turn["role"])],
    }


def row_words(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> list[str]:
    """The words of a turn."""
    found: list[str] = []
    for kind, text in searched_texts(document, kinds):
        some = words(text)
        if found and some:
            found.append(BORDER)
        found += [BEFORE[kind] + word for word in some] if BEFORE[kind] else some
    return found


def searched_texts(document: Mapping[str, Any] | None, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, str]]:
    """What of a turn is searched: of each kind the first MOST characters."""
    room = dict.fromkeys(kinds, MOST)
    for kind, text in spoken(document):
        left = room.get(kind, 0)
        if left > 0:
            room[kind] = left - len(text)
            yield kind, text[:left]


def facets(tenant: str | None, agent_id: str | None, role: int | None) -> list[str]:
    """The words in the index for these; None stands for any."""
    given = (("t", tenant), ("a", agent_id), ("r", None if role is None else str(role)))
    return [facet(name, value) for name, value in given if value is not None]


def place(at: int, turn_id: str, thread_key: str) -> int:
    """An id that sorts by time, and that hardly another turn of the same ms has."""
    digest = hashlib.sha256(f"{turn_id}/{thread_key}".encode()).digest()
    return (min(max(at, 0), LATEST) << TIES) | (int.from_bytes(digest[:4]) & ((1 << TIES) - 1))


def first_at(at: int) -> int:
    """The least id of a time in epoch ms."""
    return min(max(at, 0), LATEST + 1) << TIES


def tsvector(found: Sequence[str]) -> str:
    """The words as the text of a tsvector; Postgres itself joins the places of a word, and leaves out those that are
    too many (256), or too far behind (16,383).
    """
    return " ".join([f"{word}:{number}" for number, word in enumerate(found, 1) if word != BORDER])
