"""Every scenario: what is done, with which load and settings. The order is that of results/chaos.md."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos import bad_data, broker_faults, commanded, hostile, regions, store_faults, versions, worker_faults
from tests.chaos.load import Load, load_of, mixed
from tests.chaos.scene import Outcome, Scene

RUNS: Final = 300
ON: Final = {1: "sqlite", 2: "postgres", 3: "sqlite"}  # seed -> store


def plain(seed: int, runs: int) -> Load:
    """Nothing wrong with it."""
    return load_of(mixed(seed, runs), seed)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`act` starts workers, publishes the load, and does the harm; `within`: seconds until all must be right again.

    `look` waits for that, and looks at everything.
    """

    name: str
    title: str
    done: str
    act: Callable[[Scene], Awaitable[None]]
    load: Callable[[int, int], Load] = plain
    runs: int = RUNS
    settings: Mapping[str, Any] = field(default_factory=dict)
    within: float = 120
    small_disk: bool = False
    standby: bool = False  # on Postgres with one, whatever the seed
    look: Callable[[Scene, float], Awaitable[Outcome]] = Scene.outcome

    def kind(self, seed: int, asked: str | None = None) -> str:
        """Return the store of a play; `asked`: which one is asked for."""
        return "postgres" if self.standby else asked or ON.get(seed, "sqlite")


GAPS: Final = {"gap_timeout": bad_data.LOST_EVENTS}
IDLE: Final = {"idle_timeout": bad_data.SILENT, "terminal_grace": 2.0}

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "mid-turn",
        "kill -9 in mid-turn",
        "two of three workers, one after the other; each comes back after a second",
        worker_faults.killed_in_mid_turn,
    ),
    Scenario(
        "after-store",
        "kill -9 between store write and commit",
        "three workers die right after their 1st, 3rd and 7th transaction; others take their places",
        worker_faults.killed_after_store,
    ),
    Scenario(
        "after-produce",
        "kill -9 between produce and flush",
        "three workers die with turns handed to the producer, delivered, confirmed, or marked, and nothing committed",
        worker_faults.killed_after_produce,
    ),
    Scenario(
        "zombie",
        "SIGSTOP past the session timeout, then SIGCONT",
        "a worker sleeps for 12 s of a session of 6 s, and goes on where it was",
        worker_faults.zombie,
    ),
    Scenario("roll", "SIGTERM roll of all workers", "each of three is stopped and started", worker_faults.rolled),
    Scenario("scale", "1 → 3 → 1 workers in a loop", "three times", worker_faults.scaled),
    Scenario(
        "leader",
        "broker leader killed and back",
        "kill -9 of the broker that leads most partitions, back after 8 s",
        broker_faults.leader_killed,
    ),
    Scenario("no-brokers", "all brokers down for 60 s", "kill -9 of all three", broker_faults.all_down, within=180),
    Scenario(
        "region",
        "a region fails",
        "kill -9 of all brokers in mid-stream; agents and workers go on in a second cluster, to which MirrorMaker 2 "
        "has copied; the first is back, what the second lacks is copied; all move back",
        regions.moved,
        settings=GAPS,
        within=240,
    ),
    Scenario(
        "cut-off",
        "partition between worker and broker",
        "one worker's packets to all brokers vanish (seed 3: its connections are refused) for 12 s of a session of 6 s",
        broker_faults.cut_off,
    ),
    Scenario(
        "poison",
        "poison of ten kinds among good runs",
        "three records of each kind, on the keys of good runs; runs with events that break their dialect's rules",
        bad_data.usual,
        bad_data.poison,
    ),
    Scenario(
        "hostile",
        "a hostile tenant beside a good one",
        "it sends runs with all ids of the good one's: an end before the beginning, other words of the year 2099, the "
        "same records, tails, telemetry of 900 levels; half of that first; a worker is killed",
        worker_faults.killed_in_mid_turn,
        hostile.two_tenants,
        settings=GAPS,
    ),
    Scenario(
        "refused",
        "turns that the store can't take",
        "its database refuses the turns of every tenth run by a constraint",
        hostile.store_refuses,
        hostile.refused_turns,
    ),
    Scenario(
        "duplicates",
        "duplicated records",
        "two records of five come twice; every fourth run comes whole once more, in other batches",
        bad_data.usual,
        bad_data.duplicated,
    ),
    Scenario(
        "disorder",
        "disorder within a partition",
        "two publishers share each run, its records shuffled within a window of six",
        bad_data.usual,
        bad_data.disordered,
    ),
    Scenario(
        "hole",
        "a hole in seq",
        "every fifth run lacks a record; every tenth gets it after the gap was given up, and is reopened",
        bad_data.filled_later,
        bad_data.holes,
        settings=GAPS,
    ),
    Scenario(
        "no-end",
        "publisher dies without `end`",
        "every fourth run stops somewhere in the middle",
        bad_data.usual,
        bad_data.endless,
        settings=IDLE,
    ),
    Scenario(
        "after-close",
        "events after close",
        "every sixth run goes on after it was complete, every sixth after it broke off",
        bad_data.usual,
        bad_data.after_close,
    ),
    Scenario(
        "store-down",
        "store down for 2 min",
        "Postgres is stopped; SQLite is locked and its folder moved away; a worker has to start meanwhile",
        store_faults.store_down,
        within=180,
    ),
    Scenario(
        "store-slow",
        "store 10 × slow",
        "each piece of data to and from Postgres waits for 50 ms; SQLite's write lock is another's 90 % of the time",
        store_faults.store_slow,
    ),
    Scenario(
        "disk-full",
        "disk full under the store and SQLite's WAL",
        "a small file system is filled for 15 s (seed 3: but for 300 KB, so the log can grow and its checkpoint can't)",
        store_faults.disk_full,
        small_disk=True,
        within=180,
    ),
    Scenario(
        "standby",
        "Postgres fails over to its standby",
        "the address leads to the read-only standby for 5 s, and back; then kill -9 of the primary, and 5 s later the "
        "standby, to which the address leads by then, is promoted",
        store_faults.failed_over,
        standby=True,
        within=30,
    ),
    Scenario(
        "hot-thread",
        "one hot thread with half of the load",
        "150 of 300 runs in one thread; a worker is killed",
        worker_faults.killed_in_mid_turn,
        bad_data.hot,
    ),
    Scenario(
        "state-lost",
        "state topic lost",
        "deleted and applied anew while runs are open and spilled (seed 2: and a worker killed, nothing spilled yet)",
        broker_faults.state_lost,
    ),
    Scenario(
        "clocks",
        "clock jumps by ± 1 h on workers",
        "one worker's wall clock jumps an hour ahead, another's back; then the other way round",
        worker_faults.clocks_apart,
    ),
    Scenario(
        "versions",
        "two versions of the worker side by side",
        "two workers of another version and one of this; then the other way round",
        versions.side_by_side,
        versions.every_second_a_tenants,
    ),
    Scenario(
        "commands",
        "stops, messages and answers while everybody dies",
        "two agents, two gateways, two workers and a broker are killed right behind a command, nine kills in all; "
        "commands before their runs, behind them, twice; two answers to each question",
        commanded.commanded,
        commanded.nothing,
        settings=IDLE,
        look=commanded.look,
    ),
    Scenario(
        "large",
        "records of 900 KB",
        "ten runs with three such records each among usual ones; a worker is killed",
        worker_faults.killed_in_mid_turn,
        bad_data.large,
    ),
    Scenario(
        "many-open",
        "20,000 open turns at once",
        "all begin before any ends; a worker is killed when all are open",
        bad_data.killed_while_all_are_open,
        bad_data.many_open,
        runs=20_000,
        settings={"spill_after": 30.0},
        within=240,
    ),
)

BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}
