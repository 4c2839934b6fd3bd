"""How the pipeline is watched: metrics, telemetry, log lines, traces."""
