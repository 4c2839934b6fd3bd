"""The limits of assembly, and what else its role needs of the settings."""

from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.assembly.limits import Limits
from pipeline.policies.budgets import COMMANDS
from pipeline.settings import Settings
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.redaction_rules import rules_of
from turnmill.settings import BrokerSettings


def limits_of(settings: Settings) -> Limits:
    """Return the limits, in ms, of settings in seconds."""
    return Limits(
        gap_ms=int(settings.gap_timeout * 1000),
        idle_ms=int(settings.idle_timeout * 1000),
        run_ms=int(settings.run_timeout * 1000),
        grace_ms=int(settings.terminal_grace * 1000),
        spill_ms=int(settings.spill_after * 1000),
        reopen_ms=int(settings.reopen_window * 1000),
        dedupe_ms=int(settings.dedupe_window * 1000),
        window_events=settings.window_events,
        window_bytes=settings.window_bytes,
        run_bytes=settings.run_bytes,
        record_bytes=settings.max_record_bytes,
        keep_telemetry=settings.keep_telemetry_in_turns,
        keep_requests=settings.requests,
        feedback=settings.feedback,
    )


def redaction_of(settings: Settings) -> Redaction | None:
    """Return the redaction of TURNMILL_REDACT and TURNMILL_MASK_ERRORS; None without any. Raises CallerError."""
    rules = rules_of(settings.redact) if settings.redact is not None else []
    return Redaction(rules, mask_errors=settings.mask_errors) if rules or settings.mask_errors else None


@dataclass(frozen=True, slots=True)
class AssembleSettings:
    """The settings of the assemble role.

    `assembly_bytes`: of memory for open runs; `folder`: for the records of large runs while they are built.
    """

    brokers: BrokerSettings
    limits: Limits
    assembly_bytes: int
    folder: Path


def assemble_settings(settings: Settings) -> AssembleSettings:
    """Return what the role needs. Open runs report their usage only if a budget may stop them."""
    tell_use = any(budget.enforce in COMMANDS for budget in settings.budget_list)
    limits = replace(limits_of(settings), tell_use=tell_use)
    return AssembleSettings(settings, limits, settings.assembly_bytes, settings.home)
