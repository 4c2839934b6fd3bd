"""The dashboard of the pipeline: throughput, lag, checkpoints, stores, gateway."""

from __future__ import annotations

from helm.dashboards import IN, Json, Panel, Row, dashboard, quantiles, rate


def pipeline() -> Json:
    """Return the dashboard of the pipeline: throughput, lag, checkpoints, stores, dead letters, gateway."""
    dead = f"sum by (reason) (increase(turnmill_dead_letters_total{{{IN}}}[$__range]))"
    # Too rare for a rate: of all since the processes started.
    takeover = "turnmill_takeover_duration_seconds"
    taken_over = f"sum by (role) ({takeover}_sum{{{IN}}}) / sum by (role) ({takeover}_count{{{IN}}})"
    return dashboard(
        "turnmill-pipeline",
        "Turnmill / Health of the pipeline",
        (
            Row(
                "Now",
                (
                    Panel(
                        "Workers",
                        "short",
                        ((f"count(count by (instance) (turnmill_last_progress_timestamp_seconds{{{IN}}}))", ""),),
                        "stat",
                        4,
                    ),
                    Panel("Open turns", "short", ((f"sum(turnmill_open_turns{{{IN}}})", ""),), "stat", 4),
                    Panel("Records waiting", "short", ((f"sum(turnmill_lag_records{{{IN}}})", ""),), "stat", 4),
                    Panel(
                        "Dead letters",
                        "short",
                        ((f"sum(increase(turnmill_dead_letters_total{{{IN}}}[$__range])) or vector(0)", ""),),
                        "stat",
                        4,
                        "In the time that is shown.",
                    ),
                    Panel(
                        "Oldest checkpoint",
                        "s",
                        ((f"max(time() - turnmill_last_checkpoint_timestamp_seconds{{{IN}}})", ""),),
                        "stat",
                        4,
                        "Roles that have nothing to do make no checkpoints.",
                    ),
                    Panel(
                        "Assembled, not stored",
                        "short",
                        (
                            (
                                (
                                    f"clamp_min(sum(increase(turnmill_turns_produced_total{{{IN}}}[$__range]))"
                                    f" - sum(increase(turnmill_store_rows_total{{{IN}}}[$__range])), 0)"
                                ),
                                "",
                            ),
                        ),
                        "stat",
                        4,
                        "About 0 where the store keeps up; `turnmill doctor --ledger` counts exactly.",
                    ),
                ),
            ),
            Row(
                "Throughput",
                (
                    Panel(
                        "Events a second, by dialect",
                        "short",
                        ((rate("turnmill_events_assembled_total", "dialect"), "{{dialect}}"),),
                    ),
                    Panel(
                        "Records read a second, by topic",
                        "short",
                        ((rate("turnmill_records_read_total", "topic"), "{{topic}}"),),
                    ),
                    Panel(
                        "Turns a second, by status",
                        "short",
                        ((rate("turnmill_turns_produced_total", "status"), "{{status}}"),),
                    ),
                    Panel(
                        "Waiting records, by role",
                        "short",
                        ((f"sum by (role) (turnmill_lag_records{{{IN}}})", "{{role}}"),),
                    ),
                    Panel(
                        "Runs a second",
                        "short",
                        tuple(
                            (f"sum(rate(turnmill_runs_{what}_total{{{IN}}}[$__rate_interval]))", what)
                            for what in ("opened", "closed", "reopened")
                        ),
                    ),
                    Panel(
                        "Open turns and early events",
                        "short",
                        (
                            (f"sum(turnmill_open_turns{{{IN}}})", "open turns"),
                            (f"sum(turnmill_early_events{{{IN}}})", "early events"),
                        ),
                    ),
                ),
            ),
            Row(
                "Safety",
                (
                    Panel("Time of a checkpoint", "s", quantiles("turnmill_checkpoint_duration_seconds")),
                    Panel(
                        "Age of the last checkpoint, by role",
                        "s",
                        ((f"time() - min by (role) (turnmill_last_checkpoint_timestamp_seconds{{{IN}}})", "{{role}}"),),
                    ),
                    Panel(
                        "Rebalances a minute",
                        "short",
                        ((f"60 * sum(rate(turnmill_rebalances_total{{{IN}}}[$__rate_interval]))", "assignments"),),
                    ),
                    Panel("Time to take over partitions, mean", "s", ((taken_over, "{{role}}"),)),
                    Panel("Dead letters, by reason", "short", ((dead, "{{reason}}"),), "bargauge"),
                    Panel(
                        "Duplicates dropped a second",
                        "short",
                        ((f"sum(rate(turnmill_duplicates_dropped_total{{{IN}}}[$__rate_interval]))", "events"),),
                    ),
                    Panel(
                        "Pieces of long turns spilled a second",
                        "short",
                        ((f"sum(rate(turnmill_segments_spilled_total{{{IN}}}[$__rate_interval]))", "segments"),),
                    ),
                ),
            ),
            Row(
                "Stores",
                (
                    Panel(
                        "Turns stored a second",
                        "short",
                        ((f"sum(rate(turnmill_store_rows_total{{{IN}}}[$__rate_interval]))", "rows"),),
                    ),
                    Panel(
                        "Failures and retries a second",
                        "short",
                        tuple(
                            (f"sum(rate(turnmill_{what}_total{{{IN}}}[$__rate_interval]))", legend)
                            for what, legend in (
                                ("store_failures", "store failures"),
                                ("store_retries", "store retries"),
                                ("content_failures", "content store failures"),
                                ("archive_failures", "archive failures"),
                            )
                        ),
                    ),
                    Panel(
                        "Written to object storage a second",
                        "Bps",
                        (
                            (f"sum(rate(turnmill_content_bytes_total{{{IN}}}[$__rate_interval]))", "content"),
                            (f"sum(rate(turnmill_archive_bytes_total{{{IN}}}[$__rate_interval]))", "archive"),
                        ),
                    ),
                ),
            ),
            Row(
                "Processes and gateway",
                (
                    Panel(
                        "Memory, by process",
                        "bytes",
                        ((f"process_resident_memory_bytes{{{IN}}}", "{{component}} {{instance}}"),),
                    ),
                    Panel(
                        "CPU, by process",
                        "percentunit",
                        ((f"rate(process_cpu_seconds_total{{{IN}}}[$__rate_interval])", "{{component}} {{instance}}"),),
                    ),
                    Panel(
                        "Requests of the gateway a second, by status",
                        "reqps",
                        ((rate("turnmill_gateway_requests_total", "status"), "{{status}}"),),
                    ),
                    Panel(
                        "Time of a request, by route",
                        "s",
                        (
                            (
                                (
                                    "histogram_quantile(0.95, sum by (le, route) (rate("
                                    f"turnmill_gateway_request_duration_seconds_bucket{{{IN}}}[$__rate_interval])))"
                                ),
                                "p95 {{route}}",
                            ),
                        ),
                    ),
                    Panel(
                        "Uploads and live streams",
                        "short",
                        (
                            (f"sum(turnmill_gateway_uploads{{{IN}}})", "uploads"),
                            (f"sum(turnmill_gateway_live_readers{{{IN}}})", "live streams"),
                        ),
                    ),
                    Panel(
                        "Uploaded events a second",
                        "short",
                        ((rate("turnmill_gateway_events_total", "dialect"), "{{dialect}}"),),
                    ),
                ),
            ),
        ),
    )
