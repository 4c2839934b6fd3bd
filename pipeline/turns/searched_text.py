"""The texts of a turn that are searched, and the words by which a search finds a text, in their order. Pure.

There are three kinds of text: texts of users and agents, with the names of tools; thoughts of agents; results of tools.
Values in the content store (`content_ref`, `meta:refs`) are not searched; nor are arguments of calls, files, and
content that an interrupted turn had shown, but does not keep. The words are the same for every database.

A word is a run of letters, digits and their marks, in lower case and without accents: `Éric's` is `eric`, `s`. Scripts
that put no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give three characters from every
place on, fewer at the end of a run: `天気予報` is `天気予`, `気予報`, `予報`, `報`. So a word of any length is found as
a prefix (up to three characters), or as several in a row. One index has both kinds; text with spaces costs no more.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from pipeline.turns.content import RETURNS
from topics.json_text import objects
from topics.part_kinds import CALLS

Kind = Literal["said", "thinking", "results"]
KINDS: Final[tuple[Kind, ...]] = ("said", "thinking", "results")
MAX_LEVELS: Final = 50  # levels of a tool's result that are read
SEPARATOR: Final = "\n"

Spoken = tuple[Kind, str]


def spoken(turn: Mapping[str, Any] | None) -> Iterator[Spoken]:
    """Yield (kind, text) of each piece of a ThreadProtocol turn, in order."""
    if turn is None:
        return
    for part in objects(turn.get("parts")):
        yield from _part(part)
    for message in objects(turn.get("messages")):
        for part in objects(message.get("parts")):
            yield from _part(part)


def tools_called(turn: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the names of the tools that a ThreadProtocol turn calls, one per call."""
    for message in objects((turn or {}).get("messages")):
        for part in objects(message.get("parts")):
            if part.get("part_kind") in CALLS and isinstance(part.get("tool_name"), str):
                yield part["tool_name"]


def _part(part: dict[str, Any]) -> Iterator[Spoken]:
    kind, content = str(part.get("part_kind")), part.get("content")
    if kind in ("text", "user-prompt"):
        for text in content if isinstance(content, list) else [content]:
            value = text.get("content", text.get("text")) if isinstance(text, dict) else text
            if isinstance(value, str):
                yield "said", value
    elif kind == "thinking":
        if isinstance(content, str):
            yield "thinking", content
    elif kind in CALLS:
        if isinstance(part.get("tool_name"), str):
            yield "said", part["tool_name"]
    elif kind in RETURNS and "content_ref" not in part:
        yield "results", SEPARATOR.join(_texts(content, MAX_LEVELS))


def _texts(value: Any, deep: int) -> Iterator[str]:
    """Yield the texts and numbers in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, dict | list) and deep > 0:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, deep - 1)


GRAM: Final = 3
MAX_CHARACTERS: Final = 64  # longer words are cut to this, in texts and in queries

_MARKS: Final = "".join(chr(code) for code in range(0x300, 0x1D00) if unicodedata.category(chr(code)).startswith("M"))
_WORD: Final = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_ASCII: Final = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))  # by code
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
# Thai and Lao, Burmese, Khmer, kana, Han and its extensions.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN: Final = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Return the words of a text."""
    if text.isascii():
        parts = text.lower().translate(_ASCII).split()
        longest = max(map(len, parts), default=0)
        return parts if longest <= MAX_CHARACTERS else [word[:MAX_CHARACTERS] for word in parts]
    return [word for match in _WORD.finditer(text) for word in _of_run(match[0])]


def places(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, word) of each word in a text, as `words` returns them."""
    for match in _WORD.finditer(text):
        start, end = match.span()
        for run, unspaced, at in _placed_runs(match[0]):
            if not unspaced:
                yield start, end, run[:MAX_CHARACTERS]
            elif at is None:  # folding has changed its characters
                yield from ((start, end, gram) for gram in _grams(run))
            else:
                first = start + at
                yield from ((first + n, first + n + len(gram), gram) for n, gram in enumerate(_grams(run)))


def asked(text: str) -> list[tuple[str, bool]]:
    """Return the words to search for in a text, and whether each is a prefix.

    The end of a run here may be the middle of a run in the text, so the short pieces at ends are left out.
    """
    runs = [(run, bool(run and unspaced)) for match in _WORD.finditer(text) for run, unspaced in _runs(match[0])]
    result: list[tuple[str, bool]] = []
    for number, (run, unspaced) in enumerate(runs):
        if not unspaced:
            result.append((run[:MAX_CHARACTERS], False))
        elif number < len(runs) - 1:
            result += [(gram, False) for gram in _grams(run)]
        else:
            whole = [gram for gram in _grams(run) if len(gram) == GRAM]
            result += [(gram, False) for gram in whole] or [(run, True)]
    return result


@lru_cache(maxsize=16_384)
def _of_run(run: str) -> tuple[str, ...]:
    if run.isascii():
        return (run.lower()[:MAX_CHARACTERS],)
    return tuple(
        word for part, unspaced in _runs(run) for word in (_grams(part) if unspaced else [part[:MAX_CHARACTERS]])
    )


def _runs(run: str) -> list[tuple[str, bool]]:
    """Return the parts of a run of letters, each of one kind of script: (text, whether the script has no spaces)."""
    folded = unicodedata.normalize("NFKD", run).casefold()
    folded = unicodedata.normalize("NFKC", _ACCENTS.sub("", folded))
    return [(part[0], part["unspaced"] is not None) for word in _WORD.findall(folded) for part in _RUN.finditer(word)]


def _placed_runs(run: str) -> Iterator[tuple[str, bool, int | None]]:
    """Yield (text, whether the script has no spaces, start); start is None if folding moves characters."""
    parts = _runs(run)
    moved = sum(len(part) for part, _ in parts) != len(run)
    at = 0
    for part, unspaced in parts:
        yield part, unspaced, None if moved else at
        at += len(part)


def _grams(run: str) -> list[str]:
    return [run[start : start + GRAM] for start in range(len(run))]
