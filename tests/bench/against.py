"""`turnmill bench --against REV`: figures of another revision of this repository beside today's, in turn, in one run.

The other revision is a git worktree in `.cache/against`, with the environment that its lock file names, and compiled if
today's core is and a C compiler is there. Each figure is measured by the same program (`tests.bench.probes`) or by the
revision's own `turnmill bench --json`, in a process of its own.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from topics import compiled
from turnmill.errors import CallerError

ROOT: Final = Path(__file__).parents[2]
PROBE: Final = Path(__file__).with_name("probes.py")
WITHIN: Final = 3_600.0  # seconds of one measurement
LOADS: Final = "loads"  # the measurement that needs a broker
BY_BENCH: Final = "text-1,text-8,wires,fleet,turns,sqlite"

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """A figure; `at_most`: its target, a ratio to the other revision, or to today's figure `of`.

    `measured_by`: a name of `probes.PROBES`, or LOADS.
    """

    what: str
    measured_by: str
    figure: str
    form: str
    at_most: float
    of: str | None = None


ROWS: Final = (
    Row("bytes of a stored turn, SQLite bare", "bare", "bytes-bare", "{:,.0f} B", 0.52),
    Row("the same with search and sums, without words' index", "indexed", "bytes-indexed", "{:,.0f} B", 0.62),
    Row("CPU of a stored turn, the role's work alone: bare", "bare", "cpu-bare", "{:,.0f} µs", 0.65),
    Row("the same with search and sums", "indexed", "cpu-indexed", "{:,.0f} µs", 0.75),
    Row("CPU of reading a turn back", "bare", "read-back", "{:,.0f} µs", 1.10),
    Row("a tick with 20,000 open spilled runs", "tick", "tick", "{:,.3f} ms", 0.02),
    Row("memory of an open run of 200 B, of 200,000", "open", "open-run", "{:,.0f} B", 0.6),
    Row("a late turn in a thread of 10,000", "long", "late", "{:,.2f} ms", 0.01),
    Row("the newest 50 turns of it", "long", "newest", "{:,.2f} ms", 0.03),
    Row("an append to it, by one to a short thread", "long", "append", "{:,.2f} ms", 1.05, of="append-short"),
    Row("CPU an event, text, 8 a record, to the turns topic", LOADS, "text-8 turns", "{:,.2f} µs", 0.80),
    Row("the same, 1 event a record", LOADS, "text-1 turns", "{:,.2f} µs", 0.85),
    Row("the same, a fleet of all wires", LOADS, "wires turns", "{:,.2f} µs", 0.90),
    Row("the same, the mixed fleet", LOADS, "fleet turns", "{:,.2f} µs", 0.70),
    Row("CPU an event of the mixed fleet, into SQLite", LOADS, "fleet sqlite", "{:,.2f} µs", 0.65),
)
MEASUREMENTS: Final = tuple(dict.fromkeys(row.measured_by for row in ROWS))


@dataclass(frozen=True, slots=True)
class Compared:
    """A row with its medians: of the other revision, of today, and of the ratios within each repetition."""

    row: Row
    then: float
    now: float
    ratio: float

    @property
    def is_met(self) -> bool:
        """Whether the ratio is within the target."""
        return self.ratio <= self.row.at_most

    def cells(self, *, targets: bool) -> tuple[str, ...]:
        """As cells of a table."""
        figures = self.row.form.format(self.then), self.row.form.format(self.now), f"{self.ratio:.3f}"
        aim = (f"≤ {self.row.at_most:g}", "met" if self.is_met else "missed") if targets else ()
        return self.row.what, *figures, *aim


@dataclass(frozen=True, slots=True)
class Side:
    """A revision that can be measured: its checkout, and its Python."""

    folder: Path
    python: Path

    def figures(self, measurement: str) -> Figures:
        """Measure. Raises CallerError if that fails."""
        if measurement == LOADS:
            out = self._run("-m", "pipeline", "bench", "--only", BY_BENCH, "--json", check=False)
            return dict(_costs(json.loads(out)))
        figures: Figures = json.loads(self._run("-P", str(PROBE), measurement))
        return figures

    def _run(self, *arguments: str, check: bool = True) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        return _output([str(self.python), *arguments], self.folder, environment, check=check)


def compared(
    sides: tuple[Side, Side], rows: Sequence[Row], repetitions: int, progress: Callable[[str], None]
) -> list[Compared]:
    """Measure the other revision and today's in turn, measurement by measurement."""
    figures: dict[str, list[tuple[Figures, Figures]]] = {}
    for name in dict.fromkeys(row.measured_by for row in rows):
        for number in range(repetitions):
            progress(f"{name}: {number + 1} of {repetitions}")
            then, now = (side.figures(name) for side in sides)
            figures.setdefault(name, []).append((then, now))
    return [_compared(row, figures[row.measured_by]) for row in rows]


def _compared(row: Row, measured: Sequence[tuple[Figures, Figures]]) -> Compared:
    then = [one[row.figure] for one, _ in measured]
    now = [one[row.figure] for _, one in measured]
    by = then if row.of is None else [one[row.of] for _, one in measured]
    ratios = [figure / other for figure, other in zip(now, by, strict=True)]
    return Compared(row, *map(statistics.median, (then, now, ratios)))


def _costs(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the CPU µs an event of each load and contender, from the JSON of `turnmill bench`."""
    for load in report["loads"]:
        for contender in load["contenders"]:
            if contender["cpu_us_an_event"] is not None:
                yield f"{load['name']} {contender['name']}", contender["cpu_us_an_event"]


def today() -> Side:
    """This checkout, by this Python."""
    return Side(ROOT, Path(sys.executable))


def other(revision: str, progress: Callable[[str], None]) -> Side:
    """Return another revision, ready to be measured. Raises CallerError if it can't be made ready."""
    if not (ROOT / ".git").exists():
        raise CallerError("--against needs a clone of Turnmill's repository: its history has the other revision")
    named = _output(["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], ROOT, check=False).strip()
    if not named:
        raise CallerError(f"--against: this repository has no revision {revision!r:.100}: `git log` shows them")
    folder = ROOT / ".cache" / "against" / named
    if not (folder / "pyproject.toml").exists():
        progress(f"a worktree of {named[:8]}")
        _output(["git", "worktree", "prune"], ROOT)
        _output(["git", "worktree", "add", "--detach", str(folder), named], ROOT)
    progress(f"the environment of {named[:8]}")
    # Not the caller's environment, and none of another folder: the lock file of that revision says what is in it.
    clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    _output([_uv(), "sync", "--frozen", "--quiet"], folder, clean)
    side = Side(folder, folder / ".venv" / "bin" / "python")
    if compiled.check() == "compiled" and shutil.which(os.environ.get("CC", "cc")):
        progress(f"compiling {named[:8]}")
        _output([str(side.python), "compiled_core.py"], folder, clean)
    return side


def _uv() -> str:
    known = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".tools" / "uv" / "bin"))
    if known is None:
        raise CallerError("--against needs uv, which makes the other revision's environment: `make setup` fetches it")
    return known


def _output(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, check: bool = True
) -> str:
    """Return what a program prints. Raises CallerError with its last words if it fails, or with `check`, exits so."""
    try:
        done = subprocess.run(  # the programs are named above
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CallerError(f"--against: {command[0]}: {error}") from None
    if check and done.returncode:
        words = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CallerError(f"--against: {' '.join(command)[:200]} in {folder} failed: {words[-1]:.500}")
    return done.stdout
