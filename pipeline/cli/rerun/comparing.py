"""Compares two answers to one question: text, tools, tokens, cost, time, and the scores of a scorer."""

import asyncio
import re
import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from pipeline.cli.output import UNKNOWN, dollars
from pipeline.cli.stored.thread_view import plain
from pipeline.gateway.rerun.calling import Answer, Pair
from topics import json_text
from topics.json_text import Fields
from turnmill.errors import CallerError

FUNCTION: Final = re.compile(r"[\w.]+:\w+")
SCORE_TIMEOUT: Final = 120.0  # seconds

Score = Callable[[Fields], Any]


def scorer(given: str) -> Score:
    """Return a function that scores a turn.

    `given`: `module:function`, or a command that reads JSON and prints a number. Raises CallerError.
    """
    if not FUNCTION.fullmatch(given):
        return lambda turn: _by_command(shlex.split(given), turn)
    module, _, name = given.partition(":")
    try:
        function: Score = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CallerError(f"--scorer {given}: {error}") from None
    return function


async def scored(score: Score, pair: Fields) -> float:
    """Return the score of `{"thread_id", "turn_id", "request", "turn"}`. Raises CallerError."""
    number = await asyncio.to_thread(score, pair)
    number = await number if asyncio.iscoroutine(number) else number
    try:
        return float(number)
    except (TypeError, ValueError):
        raise CallerError(f"--scorer: a number is expected, not {number!r:.80}") from None


async def _by_command(command: Sequence[str], given: Fields) -> str:
    try:
        child = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1)
        out, _ = await asyncio.wait_for(child.communicate(json_text.to_bytes(given)), SCORE_TIMEOUT)
    except OSError as error:
        raise CallerError(f"--scorer: {command[0]} can't be started: {error.strerror}") from None
    except TimeoutError:
        child.kill()
        raise CallerError(f"--scorer: it said nothing for {SCORE_TIMEOUT:.0f} s") from None
    if child.returncode:
        raise CallerError(f"--scorer: it ended with status {child.returncode}")
    return out.decode().strip()


def side_by_side(pair: Pair) -> Table:
    """Return a pair as a table of two columns."""
    table = Table("", "before", "after", show_lines=True)
    for name, cell in (
        ("model", lambda answer: answer.model or UNKNOWN),
        ("status", lambda answer: answer.status),
        ("words", lambda answer: answer.text or UNKNOWN),
        ("tools", lambda answer: ", ".join(answer.tools) or UNKNOWN),
        *(("tokens", _tokens), ("cost", lambda answer: dollars(answer.cost_usd)), ("time", _time)),
    ):
        table.add_row(name, *(Text(plain(cell(answer))) for answer in (pair.before, pair.after)))
    if pair.after.score is not None:
        table.add_row("score", f"{pair.before.score:g}", f"{pair.after.score:g}")
    return table


def summary(pairs: Sequence[Pair]) -> Table:
    """Return a table with a line for each pair, and their sums."""
    has_scores = any(pair.after.score is not None for pair in pairs)
    names = ["thread", "same words", "same tools", "tokens", "", "cost", "", "time", "", *(["score", ""] * has_scores)]
    table = Table(*names, box=None, pad_edge=False)
    for pair in pairs:
        sides = (pair.before, pair.after)
        costs = [dollars(side.cost_usd) for side in sides]
        cells = [*map(_tokens, sides), *costs, *map(_time, sides)]
        scores = [_number(side.score) for side in sides] if has_scores else []
        same = (pair.before.text == pair.after.text, pair.before.tools == pair.after.tools)
        table.add_row(pair.thread_id, *("yes" if equal else "no" for equal in same), *cells, *scores)
    if len(pairs) > 1:
        table.add_section()
        same_words = sum(pair.before.text == pair.after.text for pair in pairs)
        same_tools = sum(pair.before.tools == pair.after.tools for pair in pairs)
        columns = [[pair.before for pair in pairs], [pair.after for pair in pairs]]
        tokens = [f"{_sum(side, 'input_tokens'):,.0f} + {_sum(side, 'output_tokens'):,.0f}" for side in columns]
        unknown = ["*" if any(answer.cost_usd is None for answer in side) else "" for side in columns]
        costs = [f"{dollars(_sum(side, 'cost_usd'))}{mark}" for side, mark in zip(columns, unknown, strict=True)]
        times = [f"{_sum(side, 'duration_ms') / len(side) / 1000:.2f} s" for side in columns]
        scores = [_number(_sum(side, "score") / len(side)) for side in columns] if has_scores else []
        counts = (f"{same_words} of {len(pairs)}", f"{same_tools} of {len(pairs)}")
        table.add_row("all (times and scores: the mean)", *counts, *tokens, *costs, *times, *scores, style="bold")
    return table


def _sum(answers: Sequence[Answer], name: str) -> float:
    return float(sum(getattr(answer, name) or 0 for answer in answers))


def _tokens(answer: Answer) -> str:
    counts = (answer.input_tokens, answer.output_tokens)
    return " + ".join(UNKNOWN if count is None else f"{count:,}" for count in counts)


def _time(answer: Answer) -> str:
    return UNKNOWN if answer.duration_ms is None else f"{answer.duration_ms / 1000:.2f} s"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"
