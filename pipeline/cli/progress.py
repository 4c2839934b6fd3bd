"""Progress bars of long commands; shown on a terminal only."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


def progress(console: Console) -> Progress:
    """Return bars that count."""
    return _bars(console, MofNCompleteColumn(), TimeElapsedColumn())


def transfer(console: Console) -> Progress:
    """Return bars that count bytes, and show the speed."""
    return _bars(console, DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())


def _bars(console: Console, *columns: ProgressColumn) -> Progress:
    text = TextColumn("{task.description}")
    return Progress(text, BarColumn(), *columns, console=console, disable=not console.is_terminal)
