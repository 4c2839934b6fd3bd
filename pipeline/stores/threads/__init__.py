"""Threads and turns: writing turn records, reading documents and lists."""
