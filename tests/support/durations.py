"""How long tests take, as a run of all has measured it: tests/durations.json, by which the longest are dealt out first.

`pytest --store-durations` rewrites it. A test is known by its file's name without the folder, so that it may be moved;
one that is missing there is short, or new, and a row whose test has gone does nothing.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.support.places import ROOT

FILE: Final = ROOT / "tests" / "durations.json"
LEAST: Final = 2  # seconds: what takes less has no row


def short_name(scope: str) -> str:
    """Return a test's id, or a file's path, without the folder."""
    file, colons, test = scope.partition("::")
    return f"{Path(file).name}{colons}{test}"


def read(file: Path = FILE) -> dict[str, int]:
    """Return the seconds of tests and files, by short name."""
    return json.loads(file.read_text()) if file.exists() else {}


def updated(known: Mapping[str, int], measured: Iterable[tuple[str, float]], files: Iterable[str]) -> dict[str, int]:
    """Return the rows after a run. `measured`: a scope with seconds, many times; `files`: names of those that exist."""
    sums: defaultdict[str, float] = defaultdict(float)
    for scope, seconds in measured:
        sums[scope] += seconds
    rows: dict[str, int] = {}
    for scope, seconds in sums.items():
        name = short_name(scope)
        rows[name] = max(rows.get(name, 0), round(seconds))
    ran, existing = {name.partition("::")[0] for name in rows}, set(files)
    for name, seconds in known.items():
        file = name.partition("::")[0]
        if file in existing and file not in ran:
            rows[name] = seconds
    return {name: seconds for name, seconds in sorted(rows.items()) if seconds >= LEAST}


def write(measured: Iterable[tuple[str, float]]) -> None:
    """Rewrite the rows of the files that were run; drop those of files that have gone."""
    files = {file.name for file in (ROOT / "tests").rglob("*.py")}
    FILE.write_text(json.dumps(updated(read(), measured, files), indent=0) + "\n")
