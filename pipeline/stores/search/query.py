"""A caller's search as the query of each database. Pure.

    invoice "late fee" refund* -draft

Each word must occur, in any order; a phrase in its order; `word*` is a prefix; a word after `-` must not occur. A word
with punctuation inside (`foo.bar`) is a phrase. Nothing else has a meaning: each database gets a query built from what
was parsed here, and never a caller's syntax.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Text, cast, column, func, literal, select, table
from sqlalchemy.dialects.postgresql import TSQUERY

from pipeline.policies.pools import FACETS
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.schema import threads, turn_words, turns
from pipeline.stores.threads.statements import NAME
from pipeline.turns.searched_text import KINDS, Kind, asked
from turnmill.errors import CallerError
from turnmill.limits import SEARCH_CHARACTERS, SEARCH_TERMS, SEARCH_WORDS
from turnmill.remembered import Remembered

MIN_PREFIX: Final = 2  # letters: a single letter would match a large part of all words

_TERM: Final = re.compile(r'(?P<not>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<any>\*)?')
# The prefix of each kind of word in the index. None of them is a letter, so no text contains such a word.
BEFORE: Final[dict[Kind, str]] = dict(zip(KINDS, ("", "‹", "›"), strict=True))
BORDER: Final = "¶"  # between two pieces of text: no phrase crosses it
FACET: Final = "§"


@dataclass(frozen=True, slots=True)
class Term:
    """Consecutive words; with `prefix` the last word is only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that must occur in a turn, and those that must not."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...]

    @property
    def any_prefix(self) -> bool:
        """True if some word is given by a prefix."""
        return any(term.prefix for term in (*self.wanted, *self.unwanted))


def parsed(query: str) -> Terms:
    """Return the terms of a caller's text. Raises CallerError if no term must occur, or if there are too many."""
    if len(query) > SEARCH_CHARACTERS:
        raise CallerError(f"q has at most {SEARCH_CHARACTERS} characters")
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for match in _TERM.finditer(query):
        text = match["word"] if match["phrase"] is None else match["phrase"]
        asked_words = asked(text)
        if not asked_words:
            continue
        words = tuple(word for word, _ in asked_words)
        prefix = asked_words[-1][1] or match["any"] is not None or (match["word"] or "").endswith("*")
        if prefix and words[-1].isascii() and len(words[-1]) < MIN_PREFIX:
            raise CallerError(f"q: at least {MIN_PREFIX} characters are expected before the * of a word")
        term = Term(words, prefix)
        chosen = unwanted if match["not"] else wanted
        if term not in chosen:
            chosen.append(term)
    if not wanted:
        raise CallerError('q: words are expected: word, "some words", word*, -word; one at least without -')
    terms = (*wanted, *unwanted)
    if len(terms) > SEARCH_TERMS or sum(len(term.words) for term in terms) > SEARCH_WORDS:
        raise CallerError(f"q has at most {SEARCH_TERMS} words and phrases, and {SEARCH_WORDS} words in all")
    return Terms(tuple(wanted), tuple(unwanted))


def facet(name: str, value: str) -> str:
    """Return the word in the index that stands for a turn's tenant, agent or role, or a tool that it calls."""
    if (word := _facets.get(name, value)) is None:
        _facets.put(name, value, word := f"{FACET}{name}{hashlib.sha256(value.encode()).hexdigest()[:16]}")
    return word


_facets: Final[Remembered[str, str]] = Remembered(FACETS)  # by the name


called: Final = partial(facet, "c")  # the word in the index that stands for a call of a tool


def fts5(terms: Terms, kinds: Sequence[Kind], facets: Iterable[str]) -> str:
    """Return the MATCH of SQLite's FTS5."""

    def text_of(term: Term) -> str:
        return _any((_fts5_phrase(of_kind(term, kind)) for kind in kinds), " OR ")

    text = " AND ".join([*(f'"{word}"' for word in facets), *map(text_of, terms.wanted)])
    return f"({text}) NOT {_any(map(text_of, terms.unwanted), ' OR ')}" if terms.unwanted else text


def fitting(terms: Terms, kinds: Sequence[Kind], facets: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a row matches, given its words as in SQLite."""

    def texts_of(term: Term) -> list[str]:
        end = "" if term.prefix else " "
        return [f" {' '.join(of_kind(term, kind).words)}{end}" for kind in kinds]

    named = [f" {word} " for word in facets]
    wanted, unwanted = (
        [texts_of(term) for term in terms.wanted],
        [text for term in terms.unwanted for text in texts_of(term)],
    )

    def fits(words: str) -> bool:
        text = f" {words} "
        return (
            all(name in text for name in named)
            and all(any(some in text for some in texts) for texts in wanted)
            and not any(some in text for some in unwanted)
        )

    return fits


def tsquery(terms: Terms, kinds: Sequence[Kind], facets: Iterable[str]) -> str:
    """Return the text of a Postgres tsquery."""

    def text_of(term: Term) -> str:
        return _any((_tsquery_phrase(of_kind(term, kind)) for kind in kinds), " | ")

    texts = [*(f"'{word}'" for word in facets), *map(text_of, terms.wanted)]
    return " & ".join([*texts, *(f"!{text_of(term)}" for term in terms.unwanted)])


def wanted_only(terms: Terms) -> Terms:
    """Return the terms without those that must not occur."""
    return Terms(terms.wanted, ())


def of_kind(term: Term, kind: Kind) -> Term:
    """Return the term as the words of this kind are written in the index."""
    return Term(tuple(BEFORE[kind] + word for word in term.words), term.prefix)


def _any(texts: Iterable[str], operator: str) -> str:
    return f"({operator.join(texts)})"


def _fts5_phrase(term: Term) -> str:
    return f'"{" ".join(term.words)}"{" *" if term.prefix else ""}'


def _tsquery_phrase(term: Term) -> str:
    quoted = [f"'{word}'" for word in term.words]
    if term.prefix:
        quoted[-1] += ":*"
    return f"({' <-> '.join(quoted)})"


FTS5 = table("turn_words_index", column("rowid"), column("turn_words_index"))


def sqlite_candidates(match: str, since: int, before: int, limit: int) -> Select[Any]:
    """Return a query of id and words of the newest turns that match."""
    hits = select(FTS5.c.rowid).where(FTS5.c.turn_words_index.op("MATCH")(match))
    hits = hits.where(FTS5.c.rowid >= since, FTS5.c.rowid < before).order_by(FTS5.c.rowid.desc()).limit(limit)
    return select(turn_words.c.id, cast(turn_words.c.words, Text).label("words")).where(turn_words.c.id.in_(hits))


def newest(tenant: str | None, since: int, before: int, limit: int) -> Select[Any]:
    """Return a query of id and words of the newest turns, whether they match or not."""
    query = select(turn_words.c.id, turn_words.c.words).where(*_bounds(tenant, since, before))
    return query.order_by(turn_words.c.id.desc()).limit(limit)


def matching(query: str, tenant: str | None, since: int, before: int) -> Select[Any]:
    """Return a query of id and words of all turns that match, by the index of words."""
    # OFFSET keeps Postgres from going through all turns in the order of their ids until it has enough.
    rows = select(turn_words.c.id, turn_words.c.words)
    return rows.where(_fits(turn_words.c.words, query), *_bounds(tenant, since, before)).offset(0)


def postgres_candidates(rows: Select[Any], query: str, wanted: str, limit: int) -> Select[Any]:
    """Return a query of id and score of the newest of these rows that match; `wanted`: the query without `-` terms."""
    some = rows.subquery()
    hits = select(some).where(_fits(some.c.words, query)).order_by(some.c.id.desc()).limit(limit).subquery()
    return select(hits.c.id, func.ts_rank(hits.c.words, cast(literal(wanted), TSQUERY), 1).label("score"))


def sqlite_callers(word: str, limit: int) -> Select[Any]:
    """Return a query of the ids of the newest turns with this word, as the index has it."""
    ids = select(FTS5.c.rowid).where(FTS5.c.turn_words_index.op("MATCH")(f'"{word}"'))
    return ids.order_by(FTS5.c.rowid.desc()).limit(limit)


def postgres_callers(query: str, tenant: str | None, limit: int) -> Select[Any]:
    """Return a query of the ids of the newest turns that match."""
    some = matching(query, tenant, 0, MAX_INTEGER).subquery()
    return select(some.c.id).order_by(some.c.id.desc()).limit(limit)


def hits_of(ids: Sequence[int], tenant: str | None) -> Select[Any]:
    """Return a query of these turns: id, name and title of the thread, turn_id, role, started_at, record."""
    title = func.coalesce(threads.c.title, threads.c.prompt).label("title")
    columns = turns.c.id, *NAME, title, turns.c.turn_id, turns.c.role, turns.c.started_at, turns.c.record
    query = select(*columns).join(threads, turns.c.thread == threads.c.id).where(turns.c.id.in_(ids))
    return query if tenant is None else query.where(threads.c.tenant == tenant)


def _fits(words: ColumnElement[Any], query: str) -> ColumnElement[bool]:
    return words.op("@@")(cast(literal(query), TSQUERY))


def _bounds(tenant: str | None, since: int, before: int) -> list[ColumnElement[bool]]:
    mine = [] if tenant is None else [turn_words.c.tenant == tenant]
    return [*mine, turn_words.c.id >= since, turn_words.c.id < before]
