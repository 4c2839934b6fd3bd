"""The limits of assembly, from the settings."""

from __future__ import annotations

from pipeline.assembly.limits import Limits
from pipeline.settings import Settings


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
