"""What the pipeline says of itself: metrics, telemetry, log lines, traces."""
