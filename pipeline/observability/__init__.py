"""Metrics, telemetry, log lines and traces of the pipeline."""
