"""The dashboard of the pipeline: throughput, lag, checkpoints, stores, gateway."""

from helm.dashboards import IN, Json, Panel, dashboard, each, graph, quantile, quantiles, rate, rates, stat, total


def pipeline() -> Json:
    """Return the dashboard of the pipeline: throughput, lag, checkpoints, stores, dead letters, gateway."""
    behind = f"{total('turnmill_turns_produced_total')} - {total('turnmill_store_rows_total')}"
    # Too rare for a rate: of all since the processes started.
    takeover = "turnmill_takeover_duration_seconds"
    taken_over = f"sum by (role) ({takeover}_sum{{{IN}}}) / sum by (role) ({takeover}_count{{{IN}}})"
    checkpoint = f"turnmill_last_checkpoint_timestamp_seconds{{{IN}}}"
    process = "{{component}} {{instance}}"
    failures = {
        "store_failures": "store failures",
        "store_retries": "store retries",
        "content_failures": "content store failures",
        "archive_failures": "archive failures",
    }
    rows = {
        "Now": (
            stat("Workers", f"count(count by (instance) (turnmill_last_progress_timestamp_seconds{{{IN}}}))"),
            stat("Open turns", f"sum(turnmill_open_turns{{{IN}}})"),
            stat("Records waiting", f"sum(turnmill_lag_records{{{IN}}})"),
            stat(
                "Dead letters",
                f"{total('turnmill_dead_letters_total')} or vector(0)",
                help="In the time that is shown.",
            ),
            stat(
                "Oldest checkpoint",
                f"max(time() - {checkpoint})",
                "s",
                "Roles that have nothing to do make no checkpoints.",
            ),
            stat(
                "Assembled, not stored",
                f"clamp_min({behind}, 0)",
                help="About 0 where the store keeps up; `turnmill doctor --ledger` counts exactly.",
            ),
        ),
        "Throughput": (
            graph("Events a second, by dialect", rates("turnmill_events_assembled_total", "dialect")),
            graph("Records read a second, by topic", rates("turnmill_records_read_total", "topic")),
            graph("Turns a second, by status", rates("turnmill_turns_produced_total", "status")),
            graph("Waiting records, by role", each("role", f"sum by (role) (turnmill_lag_records{{{IN}}})")),
            graph(
                "Runs a second",
                *((rate(f"turnmill_runs_{what}_total"), what) for what in ("opened", "closed", "reopened")),
            ),
            graph(
                "Open turns and early events",
                (f"sum(turnmill_open_turns{{{IN}}})", "open turns"),
                (f"sum(turnmill_early_events{{{IN}}})", "early events"),
            ),
        ),
        "Safety": (
            graph("Time of a checkpoint", *quantiles("turnmill_checkpoint_duration_seconds"), unit="s"),
            graph(
                "Age of the last checkpoint, by role", each("role", f"time() - min by (role) ({checkpoint})"), unit="s"
            ),
            graph("Rebalances a minute", (f"60 * {rate('turnmill_rebalances_total')}", "assignments")),
            graph("Time to take over partitions, mean", each("role", taken_over), unit="s"),
            Panel(
                "Dead letters, by reason",
                "short",
                (each("reason", total("turnmill_dead_letters_total", by="reason")),),
                "bargauge",
            ),
            graph("Duplicates dropped a second", (rate("turnmill_duplicates_dropped_total"), "events")),
            graph("Pieces of long turns spilled a second", (rate("turnmill_segments_spilled_total"), "segments")),
        ),
        "Stores": (
            graph("Turns stored a second", (rate("turnmill_store_rows_total"), "rows")),
            graph(
                "Failures and retries a second",
                *((rate(f"turnmill_{what}_total"), legend) for what, legend in failures.items()),
            ),
            graph(
                "Written to object storage a second",
                *((rate(f"turnmill_{what}_bytes_total"), what) for what in ("content", "archive")),
                unit="Bps",
            ),
        ),
        "Processes and gateway": (
            graph("Memory, by process", (f"process_resident_memory_bytes{{{IN}}}", process), unit="bytes"),
            graph(
                "CPU, by process",
                (f"rate(process_cpu_seconds_total{{{IN}}}[$__rate_interval])", process),
                unit="percentunit",
            ),
            graph(
                "Requests of the gateway a second, by status",
                rates("turnmill_gateway_requests_total", "status"),
                unit="reqps",
            ),
            graph(
                "Time of a request, by route",
                (quantile(0.95, "turnmill_gateway_request_duration_seconds", by="route"), "p95 {{route}}"),
                unit="s",
            ),
            graph(
                "Uploads and live streams",
                (f"sum(turnmill_gateway_uploads{{{IN}}})", "uploads"),
                (f"sum(turnmill_gateway_live_readers{{{IN}}})", "live streams"),
            ),
            graph("Uploaded events a second", rates("turnmill_gateway_events_total", "dialect")),
        ),
    }
    return dashboard("turnmill-pipeline", "Turnmill / Health of the pipeline", rows)
