"""Turns, feedback and audit entries as files for analysis: Parquet segments, tables of Apache Iceberg, JSON lines."""
