"""The console that commands print to, and numbers with nouns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH: Final = 160  # columns, if the output is no terminal


def wide_console() -> Console:
    """Return a console on standard output.

    Without a terminal, at least PIPE_WIDTH wide, for scripts that grep tables.
    """
    from rich.console import Console  # noqa: PLC0415  # commands of the client alone need not have it

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, PIPE_WIDTH)
    return console


def many(count: int, noun: str) -> str:
    """Return a count with its noun: `1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
