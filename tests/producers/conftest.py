"""Tests with real clients and servers that are no part of the package: `make test-producers` runs them.

They need what the machine may lack: Java, Maven, Go, Rust, Node, a second Postgres. None is skipped where it is missing.
"""
