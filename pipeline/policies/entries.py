"""The JSON lists of settings, as of budgets, prices and webhooks: every message names the wrong entry. Pure."""

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
Entry = TypeVar("Entry")


def entries(
    text: str,
    read: Callable[[Any], Entry],
    twin: Callable[[Entry], tuple[object, str]],
    what: str = "",
    most: int | None = None,
    number: Callable[[str], Any] | None = None,
) -> tuple[Entry, ...]:
    """Return what `read` makes of each value of a JSON list of at most `most`; it may raise ValueError.

    `twin`: what no two entries may share, and the message if they do. `what`: the list's values, in messages. `number`:
    parses all numbers. Raises ValueError.
    """
    rows = value_of(text, number)
    if type(rows) is not list or (most is not None and len(rows) > most):
        bounds = "" if most is None else f"of at most {most:,} {what} "
        raise ValueError(f"a JSON list {bounds}is expected")
    taken: dict[object, Entry] = {}
    for position, row in enumerate(rows, 1):
        try:
            entry = read(row)
            shared, problem = twin(entry)
            if shared in taken:
                raise ValueError(problem)
        except ValueError as error:
            raise ValueError(f"entry {position}: {error}") from None
        taken[shared] = entry
    return tuple(taken.values())


def value_of(text: str, number: Callable[[str], Any] | None = None) -> Any:
    """Return what a JSON text says. Raises ValueError, which shows nothing of the text."""
    try:
        return json.loads(text, parse_float=number, parse_int=number)
    except ValueError as error:
        raise ValueError(f"a JSON list is expected, and this is broken JSON: {error}") from None


def name_of(row: dict[str, Any]) -> str:
    """Return an entry's name. Raises ValueError."""
    name = row.get("name")
    if type(name) is not str or not NAME.fullmatch(name):
        raise ValueError("'name' must have 1 to 100 letters, digits, '.', '_' and '-'")
    return name


def same_name(name: str) -> tuple[str, str]:
    """Return the twin of entries that have different names."""
    return name, f"the name {name!r} is there twice"
