"""Kafka beside the flow of records: topics, groups, offsets, dead letters, and the reader of topics."""
