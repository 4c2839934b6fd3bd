"""The snippet and the score of a hit. Pure.

A snippet is HTML: all text in it is escaped, and hits stand between `<mark>` and `</mark>`.
"""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pipeline.stores.search.query import BEFORE, Term, Terms
from pipeline.stores.search.write import searched_texts
from pipeline.turns.searched_text import Kind, places

LENGTH: Final = 240  # characters of a snippet
LEAD: Final = 80  # of them before the first hit
MAX_HITS: Final = 200  # of a text that are considered
CUT: Final = "…"
_SPACE: Final = re.compile(r"\s+")

Span = tuple[int, int]
Place = tuple[int, int, str]


def snippet_of(document: Mapping[str, Any] | None, terms: Terms, kinds: Sequence[Kind]) -> str:
    """Return the piece of a turn around the first hits, in the text with most of the terms, and most occurrences."""
    best: tuple[tuple[int, int], str, list[Span]] = ((-1, 0), "", [])
    for _, text in searched_texts(document, kinds):
        there = list(places(text))
        hits = [_hits(there, term) for term in terms.wanted]
        rank = sum(map(bool, hits)), sum(map(len, hits))
        if rank > best[0]:
            best = rank, text, _joined(span for some in hits for span in some)
    return _marked(*best[1:])


def score_of(words: str, terms: Terms, kinds: Sequence[Kind]) -> float:
    """Return the score of a row's words: how often the terms occur, relative to the number of words."""
    listed = words.split(" ")
    score = 0.0
    for term in terms.wanted:
        marked = tuple(BEFORE[kind] + term.words[-1] for kind in kinds)
        count = sum(word.startswith(marked) for word in listed) if term.prefix else sum(map(listed.count, marked))
        score += 1 + math.log(count) if count else 0
    return score / (1 + math.log(len(listed)))


def _hits(there: Sequence[Place], term: Term) -> list[Span]:
    """Return the spans where a text has the term's words in a row."""
    spans: list[Span] = []
    count = len(term.words)
    for number, (start, _, word) in enumerate(there):
        if not _is(word, term, 0) or len(spans) == MAX_HITS:
            continue
        row = there[number : number + count]
        if len(row) == count and all(_is(following, term, index) for index, (_, _, following) in enumerate(row)):
            end = row[-1][1]
            unspaced = end - row[-1][0] == len(row[-1][2]) and not row[-1][2].isascii()
            cut = unspaced and term.prefix and len(term.words[-1]) < len(row[-1][2])
            spans.append((start, row[-1][0] + len(term.words[-1]) if cut else end))
    return spans


def _is(word: str, term: Term, index: int) -> bool:
    wanted = term.words[index]
    return word.startswith(wanted) if term.prefix and index == len(term.words) - 1 else word == wanted


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; overlapping ones are joined."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _marked(text: str, spans: Sequence[Span]) -> str:
    first = max(0, spans[0][0] - LEAD) if spans else 0
    last = min(len(text), first + LENGTH)
    pieces, at = [CUT if first else ""], first
    for start, end in spans:
        if start >= last:
            break
        pieces += [_plain(text[at:start]), f"<mark>{_plain(text[start : min(end, last)])}</mark>"]
        at = min(end, last)
    pieces += [_plain(text[at:last]), CUT if last < len(text) else ""]
    return "".join(pieces).strip()


def _plain(text: str) -> str:
    """Return the text escaped, on a single line, without lone surrogates."""
    return html.escape(_SPACE.sub(" ", text).encode("utf-8", "replace").decode())
