"""Runs, records and feedback that come in over HTTP."""
