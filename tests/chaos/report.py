"""Results of the long commands, as pages under `results/`: each is written by the command that measures it."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from typing import Final

from tests.bench.conditions import cpu
from tests.bench.report import put_into
from tests.chaos.outcomes import Line
from tests.chaos.scenarios import BY_NAME
from tests.support.places import ROOT
from topics import CORE

RESULTS: Final = ROOT / "results"
POM: Final = ROOT / "pipeline" / "devbroker" / "pom.xml"
STORES: Final = {"sqlite": "SQLite", "postgres": "Postgres"}
COUNTED: Final = ("runs", "stored", "dead", "open", "turns", "twice", "truncated", "different")


def write_results(name: str, text: str) -> None:
    """Put `text` between the marks of results/NAME.md, which stays as it is around them."""
    page = RESULTS / f"{name}.md"
    page.write_text(put_into(page.read_text(encoding="utf-8"), text), encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """-> Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def circumstances(command: str) -> str:
    """When, where, with what, and how to do it again."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("faust-streaming", "aiokafka", "SQLAlchemy"))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}, core {CORE}"
    found = re.search(r"<artifactId>kafka_[^<]*</artifactId>\s*<version>([^<]*)<", POM.read_text())
    kafka = f"Kafka {found[1]}" if found else "Kafka"
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"`{command}`, {today}: {os.cpu_count()} cores ({cpu()}), {system}, {kafka}, {packages}.{_busy()}\n"


def _busy() -> str:
    """A word on other work that moved the figures: ours alone keeps about three processes a core waiting."""
    load = os.getloadavg()[2]
    others = load > 5 * (os.cpu_count() or 1)
    return f" The machine was busy with other work, too: load average {load:.0f}." if others else ""


def chaos_part(lines: Sequence[Line], command: str) -> str:
    """The table of all scenarios, a row each; all its plays together."""
    rows = []
    for name, some in groupby(lines, key=lambda line: line.scenario):
        plays, scenario = list(some), BY_NAME[name]
        failed = sum(play.failed for play in plays)
        where = ", ".join(
            f"{STORES[kind]} {'+'.join(str(play.seed) for play in plays if play.store == kind)}"
            for kind in STORES
            if any(play.store == kind for play in plays)
        )
        rows.append(
            (
                scenario.title,
                scenario.done,
                where,
                *(sum(getattr(play, column) for play in plays) for column in COUNTED),
                f"{max(play.recovery for play in plays):.1f} s",
                f"**{failed} failed**" if failed else "; ".join(sorted({p.note for p in plays if p.note})) or "–",
            )
        )
    header = (
        *("scenario", "what was done", "store and seeds", "runs", "stored", "dead letters", "open", "turns"),
        *("twice", "truncated", "other hash", "worst time to recover", "notes"),
    )
    minutes = sum(line.seconds for line in lines) / 60
    failures = sum(line.failed for line in lines)
    verdict = f"{len(lines)} plays of {len(rows)} scenarios in {minutes:.0f} min; {failures} failed. "
    return f"{verdict}{_played_again(lines)}{circumstances(command)}\n{table(header, rows)}"


def _played_again(lines: Sequence[Line]) -> str:
    again = [f"`{line.scenario}` {line.seed}" for line in lines if line.again]
    return f"Played again after the whole run, on their own: {', '.join(again)}. " if again else ""
