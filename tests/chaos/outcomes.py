"""What came of each play, as a file: of these the table of results/chaos.md is made, whoever played them."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from tests.chaos.play import Played
from tests.chaos.scenarios import SCENARIOS

ORDER: Final = [scenario.name for scenario in SCENARIOS]


@dataclass(frozen=True, slots=True)
class Line:
    """One play. `ended`: epoch seconds; `again`: it was not played with all the others, but on its own."""

    scenario: str
    seed: int
    store: str
    runs: int
    stored: int
    dead: int
    open: int
    turns: int
    twice: int
    truncated: int
    different: int
    recovery: float
    seconds: float
    note: str
    failed: bool
    ended: float
    again: bool


def line_of(played: Played, *, again: bool) -> Line:
    outcome, balance = played.outcome, played.outcome.balance
    return Line(
        scenario=played.scenario.name,
        seed=played.seed,
        store=played.store,
        runs=balance.runs if balance else 0,
        stored=balance.stored if balance else 0,
        dead=balance.dead if balance else 0,
        open=balance.open if balance else 0,
        turns=outcome.turns,
        twice=outcome.twice,
        truncated=outcome.truncated,
        different=outcome.different,
        recovery=outcome.recovery,
        seconds=outcome.seconds,
        note=outcome.note,
        failed=bool(outcome.problems),
        ended=time.time(),
        again=again,
    )


def keep(folder: Path, line: Line) -> None:
    """In the place of what the same play gave before."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{line.scenario}-{line.seed}-{line.store}.json"
    path.write_bytes(orjson.dumps(asdict(line), option=orjson.OPT_INDENT_2))


def kept(folder: Path) -> list[Line]:
    """In the order of the scenarios and seeds."""
    lines = [Line(**orjson.loads(path.read_bytes())) for path in folder.glob("*.json")]
    return sorted(lines, key=lambda line: (ORDER.index(line.scenario), line.seed, line.store))
