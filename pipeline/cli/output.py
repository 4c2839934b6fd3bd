"""The console that commands print to, its progress bars, and numbers with nouns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

PIPE_WIDTH: Final = 160  # columns, if the output is no terminal
UNKNOWN: Final = "–"


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


def dollars(value: float | None) -> str:
    """Return a cost: `$0.0031`; what is less than the last digit is not shown as nothing."""
    return UNKNOWN if value is None else "<$0.0001" if 0 < value < 0.00005 else f"${value:,.4f}"


def progress(console: Console) -> Progress:
    """Return bars that count; they are shown on a terminal only."""
    from rich.progress import MofNCompleteColumn, TimeElapsedColumn  # noqa: PLC0415  # as above

    return _bars(console, MofNCompleteColumn(), TimeElapsedColumn())


def transfer(console: Console) -> Progress:
    """Return bars that count bytes, and show the speed; they are shown on a terminal only."""
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn  # noqa: PLC0415  # as above

    return _bars(console, DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())


def _bars(console: Console, *columns: ProgressColumn) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  # as above

    text = TextColumn("{task.description}")
    return Progress(text, BarColumn(), *columns, console=console, disable=not console.is_terminal)
