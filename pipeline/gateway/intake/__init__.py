"""Runs and records that come in over HTTP."""
