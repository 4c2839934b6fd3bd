"""The bounds of assembly."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of assembly; times in ms of the broker's clock."""

    gap_ms: int = 30_000
    idle_ms: int = 300_000
    run_ms: int = 3_600_000
    grace_ms: int = 5_000
    spill_ms: int = 30_000
    reopen_ms: int = 3_600_000
    dedupe_ms: int = 86_400_000
    window_events: int = 10_000
    window_bytes: int = 8_388_608  # of one run's early records; below `reopen_bytes`, so that it can be reopened
    run_bytes: int = 536_870_912  # of records of one run
    open_bytes: int = 4_194_304  # of records of open runs that are not on the state topic yet, per partition
    closed_runs: int = 20_000  # remembered per partition; one with a long name counts as several
    reopen_bytes: int = 16_777_216  # of records of interrupted runs that can be reopened, per partition
    closing_bytes: int = 16_777_216  # that runs weigh whose turns are made at once when their deadlines pass
    record_bytes: int = 1_048_576
    keep_telemetry: bool = False
    keep_requests: bool = False
    tell_use: bool = False  # report the usage of open runs
    feedback: bool = True
