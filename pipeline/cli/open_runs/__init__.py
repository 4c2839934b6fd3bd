"""Runs that are under way: `runs`, and commands to them (`stop`, `steer`, `answer`)."""
