"""Kafka apart from the worker's flow of records: topics, groups, offsets, dead letters, and the reader of topics."""
