"""What schedules are made of: who publishes, what fails, what the workers' limits are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import gettempdir
from typing import Any, Final

from pipeline.settings import Settings
from tests.simulation.hostile import ATTACKS

# Times in seconds: so short that a schedule takes less than a minute of them.
TIMES: Final[Mapping[str, Any]] = {
    "gap_timeout": 2,
    "idle_timeout": 5,
    "run_timeout": 40,
    "terminal_grace": 1,
    "spill_after": 1.5,
    "reopen_window": 1e6,
    "dedupe_window": 1e6,
    "checkpoint_interval": 1,
    "archive_age": 2,
}
LONG: Final = 5.0  # seconds of silence after which every run is over
RECORD_BYTES: Final = 30_000
TURN_BYTES: Final = 60_000  # of the largest record that a topic takes
LENGTHS: Final = ((2.0, 4), (3.0, 5), (3.0, 6), (5.0, 6), (15.0, 12))  # seconds, and how many runs at most
CONTENT_AT: Final = 4_000  # bytes of a value that goes to the content store


def settings_of(**more: Any) -> Settings:
    """The settings of a schedule's workers."""
    given = {
        "home": gettempdir(),
        "max_record_bytes": RECORD_BYTES,
        "content": "s3://simulated",
        "content_threshold": CONTENT_AT,
    }
    return Settings(**{**TIMES, **given, "archive": "file:///archive", **more})


@dataclass(frozen=True, slots=True)
class Scenario:
    """`faults`: names of what `storm` does, each as often as it stands here. `weather`: highest odds of a fault.

    `exact`: each good run must be stored as if nothing had happened; else its records must be stored or dead letters.
    `limits`: of assembly, beside those of the settings.
    """

    name: str
    faults: tuple[str, ...] = ()
    weather: Mapping[str, float] = field(default_factory=dict)
    attacks: tuple[str, ...] = ()
    most_attacks: int = 0
    settings: Settings = field(default_factory=settings_of)
    limits: Mapping[str, Any] = field(default_factory=dict)
    lengths: Sequence[tuple[float, int]] = LENGTHS
    exact: bool = True
    sqlite: bool = False
    lake: bool = False  # the archive is real tables
    talks: bool = False  # those who publish are clients whose conversations fork
    retention: bool = False  # threads expire, are held and are erased: see `tests.simulation.retention`
    share: int = 1  # of the schedules


MEMORY: Final = ("late_tail", "native_tail", "backwards", "gap", "hijack", "twin")
ALL: Final = tuple(name for name in ATTACKS if name != "sums_of_a_thread")  # that takes long, and is for databases
MEMBERS: Final = ("kill", "kill", "start", "start", "stop", "freeze", "resume")
STORAGE: Final = ("compact", "retain", "marker")
OUTAGES: Final = ("broker", "store", "content", "agent", "full", "calm")
ROUGH: Final = {"refuse": 0.05, "lose": 0.1, "doubt": 0.1, "drop": 0.2, "deny": 0.1}
SHORT: Final = settings_of(reopen_window=3, dedupe_window=6)
FEW: Final = settings_of(reopen_window=1e6, window_events=6, redact="secrets")
PARKED: Final = settings_of(assembly_bytes=2000, redact="secrets")
SOME_PARKED: Final = settings_of(assembly_bytes=40_000, redact="secrets")
PORTIONS: Final = {"closing_bytes": 1}  # so each portion of runs that are over is a single one
INLINE: Final = settings_of(content="inline", redact="secrets")

SCENARIOS: Final = (
    Scenario("kills", ("kill", "kill", "start", "compact"), {"doubt": 0.05}, limits=PORTIONS, share=3),
    Scenario("members", MEMBERS, {"drop": 0.3}, share=2),
    Scenario("outages", (*OUTAGES, "kill", "start"), ROUGH, settings=SOME_PARKED, share=2),
    Scenario("hostile", ("kill", "start"), {}, ALL, 4, settings_of(redact="secrets"), share=3),
    Scenario("everything", (*MEMBERS, *STORAGE, *OUTAGES), ROUGH, ALL, 3, settings_of(redact="secrets"), share=3),
    Scenario("inline", ("kill", "start", "content", "store", "calm"), ROUGH, ALL, 3, INLINE, share=1),
    Scenario(
        "short memory",
        ("kill", "start", *STORAGE),
        {"lose": 0.05},
        MEMORY,
        3,
        SHORT,
        {"closed_runs": 3, "reopen_bytes": 3000, **PORTIONS},
        exact=False,
        share=2,
    ),
    Scenario(
        "tight",
        ("kill", "start", "compact"),
        {"lose": 0.05},
        ("gap", "too_large", "unbuildable", "huge_seq", "backwards"),
        3,
        FEW,
        {"open_bytes": 3000, "reopen_bytes": 12_000, "window_bytes": 8000, "run_bytes": 50_000, **PORTIONS},
        exact=False,
        share=2,
    ),
    Scenario(
        "hanging",
        ("hang", "hang", "start", "stop", "start", "calm"),
        {"drop": 0.5},
        ("late_tail", "too_large"),
        1,
        lengths=((15.0, 8), (30.0, 12)),
    ),
    Scenario("parked", (*MEMBERS, "compact", "disk", *OUTAGES), ROUGH, MEMORY, 2, PARKED, PORTIONS, share=2),
    Scenario(
        "forks",
        (*MEMBERS, *STORAGE, *OUTAGES, "erase"),
        ROUGH,
        settings=settings_of(redact="secrets"),
        talks=True,
        share=2,
    ),
    Scenario("full", ("full", "full", "calm", "kill", "start"), {}, ("unstorable",), 4),
    Scenario(
        "lake",
        ("kill", "start", "stop", "freeze", "resume", "store", "store", "calm", "erase"),
        {"drop": 0.3},
        MEMORY,
        2,
        SHORT,
        exact=False,
        lake=True,
    ),
    Scenario(
        "sqlite",
        ("kill", "start", "store"),
        {},
        (*MEMORY * 2, *("same_columns",) * 3, *("unstorable", "squat") * 2, "sums_of_a_thread"),
        4,
        SHORT,
        {"closed_runs": 3, "reopen_bytes": 3000, **PORTIONS},
        exact=False,
        sqlite=True,
    ),
    Scenario(
        "retention",
        ("kill", "start", "store", "content", "calm", *("hold", "delete", "deliver") * 2, "release", "tenant"),
        {},
        ("late_tail", "backwards", "twin", "no_tenant"),
        3,
        settings_of(store_retention="30d,acme=5d,globex=forever", reopen_window=3, dedupe_window=6),
        lengths=((5.0, 6), (15.0, 10)),
        exact=False,
        retention=True,
    ),
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}
