"""Tests with real clients and servers that are no part of the package: `make test-producers` runs them.

They need what a machine may lack: Java, Maven, Go, Rust, Node, a second Postgres. What is missing is no reason to skip.
"""
