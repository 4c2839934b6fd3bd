"""Where commands print to, and how they count."""

from __future__ import annotations

from typing import Final

from rich.console import Console

PIPE_WIDTH: Final = 160  # where the output is no terminal


def wide_console() -> Console:
    """Standard output; without a terminal wide enough for tables that a script greps."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, PIPE_WIDTH)
    return console


def many(count: int, noun: str) -> str:
    """-> `1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
